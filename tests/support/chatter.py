"""A fact, the same question asked again and again, and small talk about the subject: what buries a fact; and a follow-up."""

from __future__ import annotations

from collections.abc import Sequence

from amem_integrations import AgenticMemory

FACT = "We adopted a beagle, Rex, last Sunday."
QUESTION = "What is my dog called?"
PARAPHRASES = (
    "What's my dog's name?",
    "Do you remember what my dog is called?",
    "How is my dog called?",
    "What did we name our dog?",
    "I forgot, what is our dog's name?",
    "What name did we give the dog?",
    "what's the name of our dog",
    "Hey, what's my dog called again?",
    "What do we call our dog?",
    "Who is my dog?",
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

FOLLOW_UP = ("Nina sent us the invitation to her wedding.", "How exciting!", "And when is it?")
EVENTS = ("the concert", "the exam", "our flight", "the match", "the market", "the fair")
DAYS = ("3 may", "5 june", "8 august", "19 march", "21 april", "30 october")


def tell_of_dates(memory: AgenticMemory, namespace: Sequence[str]) -> None:
    """Store the date of the wedding, and those of much else."""
    memory.add("nina's wedding is on 12 july at the mill", namespace=namespace, thread="x")
    others = [f"{event} is on {day}" for event in EVENTS for day in DAYS]
    memory.add_many(others, namespace=namespace)
