"""A fact, the same question asked again and again, and small talk about the subject: what buries a fact."""

from __future__ import annotations

FACT = "We adopted a beagle, Rex, last Sunday."
QUESTION = "What is my dog called?"
PARAPHRASES = (
    "What's my dog's name?",
    "What is the name of my dog?",
    "Do you remember what my dog is called?",
    "Can you tell me my dog's name?",
    "How is my dog called?",
    "Which name does my dog have?",
    "What did we name our dog?",
    "Remind me, what's the dog called?",
    "I forgot, what is our dog's name?",
    "Do you know my dog's name?",
    "What name did we give the dog?",
    "Could you remind me what our dog is called?",
    "what's the name of our dog",
    "Tell me, what is my dog's name?",
    "Hey, what's my dog called again?",
    "My dog, what's he called?",
    "What do we call our dog?",
    "Is there a name for my dog that you know?",
    "Who is my dog?",
    "So what was my dog's name?",
)
UNKNOWN = "I am sorry, I do not know what your dog is called."
SMALL_TALK = (
    ("Dogs are such wonderful animals!", "Yes, dogs are loyal and loving companions."),
    ("Do you like dogs?", "I think dogs are lovely animals."),
    ("Why do dogs wag their tails?", "Dogs wag their tails to show how they feel."),
    ("Dogs sleep a lot, don't they?", "Yes, a grown dog sleeps about half the day."),
    ("What should a dog not eat?", "Dogs should not eat chocolate, grapes or onions."),
    ("How often should I walk a dog?", "Most dogs need two walks a day."),
    ("Is it normal that a dog snores?", "Yes, many dogs snore, and it is mostly harmless."),
    ("Which toys are good for dogs?", "Chew toys and balls are good for most dogs."),
    ("Thanks, you know a lot about dogs!", "You're welcome! Ask me about your dog any time."),
    ("Good night!", "Good night! Give your dog a pat from me."),
)
