"""Texts of all kinds; `data/minilm_vectors.npy` has what sentence-transformers 6.2 makes of each, in this order."""

from __future__ import annotations

TEXTS = [
    "",
    " ",
    "a",
    ".",
    "?!",
    "Yes",
    "What crafts does Melanie do?",
    "Melanie made a bowl in her pottery class.",
    "The train to Berlin was late.",
    "THE TRAIN TO BERLIN WAS LATE.",
    "  The   train\tto\nBerlin \r\n was late.  ",
    "naïve café, Ångström, Straße, ﬁne",
    "cafe\u0301 and café",
    "I'll meet you at 9:30 on 8 May 2023; bring €25.50 (or $30).",
    "私は昨日、陶芸教室に申し込みました。",
    "我昨天报名参加了陶艺班。",
    "어제 도자기 수업에 등록했어요.",
    "Вчера я записалась на курсы керамики.",
    "سجلت أمس في دورة للفخار",
    "नमस्ते दुनिया",
    "🎨🏺 pottery 👩‍👩‍👧‍👦 🇩🇪",
    "🙂",
    "\x00\x01\x02",
    "bell\x07 and null\x00 and escape\x1b[31m",
    "zero\u200bwidth and bom\ufeff and nbsp\u00a0here",
    "\ufffd\ufffe",
    "[CLS] [SEP] [MASK] [PAD] [UNK]",
    "supercalifragilisticexpialidocious" * 4,  # longer than a word may be
    "x" * 5_000,
    "https://example.org/a/b?c=d&e=%20#f",
    "def f(x):\n    return {'a': [x, 1e-9]}",
    "word " * 253,
    "word " * 254,  # exactly what the model reads
    "word " * 255,
    " ".join(f"number {number}" for number in range(2_500)),  # 5,000 words
]
