"""What kind of utterance a text is: filler, a question, or a statement, in several languages."""

from __future__ import annotations

from amem_integrations.kinds import kind_of

# ruff: noqa: RUF001 - other scripts

FILLER = [
    "Thanks! Bye",
    "Thank you so much! 😊",
    "Catch you later!",
    "Hi",
    "Good morning!",
    "👍👍",
    "🎉",
    "...",
    "lol",
    "hahaha",
    "Wow, that's amazing!",
    "Okay, got it.",
    "sounds good",
    "You're welcome!",
    "Take care!",
    "Thanks, bye!",
    "ok thx",
    "Soooo cool!!!",
    "Hello! How can I help you today?",
    "How are you?",
    "?!",
    "❤️",
    "Danke schön!",
    "Tschüss, bis bald!",
    "Guten Morgen",
    "Merci beaucoup !",
    "Bonjour",
    "Hola, ¿qué tal?",
    "¡Muchas gracias!",
    "Спасибо большое!",
    "Привет! Как дела?",
    "До свидания",
    "Понятно.",
    "谢谢你！再见",
    "太好了！",
    "哈哈哈",
    "ありがとうございます！",
    "またね〜",
    "了解です",
    "안녕하세요",
    "감사합니다!",
    "شكرا جزيلا",
    "مع السلامة",
    "नमस्ते",
    "धन्यवाद!",
    "बहुत बहुत धन्यवाद",
    "Grazie mille",
    "Obrigado!",
    "Ok 👍",
    "Oh no, sorry to hear that",
    "Great, thanks for your help!",
]
QUESTIONS = [
    "Dogs sleep a lot, don't they?",
    "Where do I live?",
    "What is my dog's name?",
    "what's my name",
    "Which city did I move to?",
    "Can you remind me where I live?",
    "Do you remember where I moved?",
    "I forgot, what's my dog called?",
    "Tell me where I live, please?",
    "Hey, do you know where I live now?",
    "In which city is my flat?",
    "Could you tell me what my dog is called?",
    "Wo wohne ich?",
    "Wie heißt mein Hund?",
    "Où est-ce que j'habite ?",
    "¿Dónde vivo?",
    "¿Cómo se llama mi perro?",
    "Где я живу?",
    "Как зовут мою собаку?",
    "我住在哪里？",
    "私はどこに住んでいますか？",
    "犬の名前は何ですか",
    "내 개 이름이 뭐예요?",
    "أين أعيش؟",
    "ما اسم كلبي؟",
    "मैं कहाँ रहता हूँ?",
    "मेरे कुत्ते का नाम क्या है?",
    "Πού μένω;",
    "What is 2 + 2?",
    "Thanks! And where do I live?",
    "If I moved to Oslo, would I pay more tax?",
    "What did I say about the wedding on 14 June?",
    "Do you prefer tea, coffee with milk, or water?",
    "When I was in Paris, what did I eat?",
    "ฉันอาศัยอยู่ที่ไหน?",
    "What's the name of the beagle we adopted?",
    "do you know what my dog is called?",
    "Did you know where I live?",
    "Remind me, where do I live?",
    "So what's my wife's name?",
]
STATEMENTS = [
    "My dogs sleep a lot, don't they?",
    "Yes, in March",
    "Yes",
    "No",
    "I moved to Oslo.",
    "Did you know I moved to Oslo?",
    "I moved to Oslo, can you help?",
    "Did you know that Anna is my sister?",
    "Thanks, I got the job!",
    "My name is Ann",
    "Ann",
    "42",
    "at 5",
    "In March.",
    "I live in Oslo. Where do I live?",
    "We adopted a beagle, Rex",
    "I moved to Oslo, right?",
    "Wusstest du, dass ich nach Oslo gezogen bin?",
    "Ich bin nach Oslo gezogen, kannst du mir helfen?",
    "Me mudé a Oslo, ¿puedes ayudarme?",
    "¿Sabías que me mudé a Oslo?",
    "Savais-tu que j'ai déménagé à Oslo ?",
    "J'ai déménagé à Oslo, tu peux m'aider ?",
    "Ты знал, что я переехал в Осло?",
    "Я переехал в Осло, можешь помочь?",
    "你知道我搬到奥斯陆了吗？",
    "我搬到奥斯陆了，你能帮我吗？",
    "オスロに引っ越したって知ってた？",
    "オスロに引っ越しました、手伝ってくれますか？",
    "오슬로로 이사했어요, 도와줄 수 있어요?",
    "오슬로로 이사한 거 알고 있었어?",
    "هل تعلم أنني انتقلت إلى أوسلو؟",
    "انتقلت إلى أوسلو، هل يمكنك مساعدتي؟",
    "क्या तुम जानते हो कि मैं ओस्लो चला गया?",
    "मैं ओस्लो चला गया, क्या तुम मदद कर सकते हो?",
    "Hi, I'm Anna",
    "Thanks Anna",
    "See you on Friday",
    "Bye, Oslo is waiting",
    "谢谢，我明天去",
    "明天见",
    "Good morning Vietnam",
    "I'm allergic to nuts, what can I eat?",
    "What can I cook for my daughter, who is allergic to nuts?",
    "What should I do now that I live in Oslo?",
    "Have a nice day is my favourite song",
    "Will is my brother",
    "Who Framed Roger Rabbit is my favourite film",
    "Can you believe I got the job?",
    "What can I eat? I'm vegan.",
    "I got engaged!! Can you believe it?",
    "Is it ok that, because I moved to Oslo, I sold the car?",
    "i moved to oslo, can you help",
    "Did I tell you my sister lives in Rome?",
    "1️⃣",
    "5 👍",
    "haha I quit my job",
    "How I met your mother is great",
    "When I was ten I broke my arm.",
    "Merci, j'habite à Lyon",
    "Спасибо, я живу в Осло",
    "شكرا، أعيش في أوسلو",
    "धन्यवाद, मैं ओस्लो में रहता हूँ",
]


def test_what_says_nothing_is_filler():
    for text in FILLER:
        assert kind_of(text) == "filler", text


def test_what_only_asks_is_a_question():
    for text in QUESTIONS:
        assert kind_of(text) == "question", text


def test_what_names_or_states_something_is_a_statement():
    for text in STATEMENTS:
        assert kind_of(text) == "statement", text


def test_filler_with_a_name_a_number_or_a_date_is_no_filler():
    for more in ["Rex", "42", "in March", "Осло", "東京", "मुंबई"]:
        for text in FILLER:
            assert kind_of(f"{text} {more}") != "filler", (text, more)


def test_a_long_text_is_read_in_reasonable_steps():
    assert kind_of("thanks " * 40) == "filler"
    assert kind_of("thanks " * 250 + "Rex") == "statement"
    assert kind_of("ha" * 900 + "t") == "statement"
    assert kind_of("thanks " * 4_000) == "statement"
