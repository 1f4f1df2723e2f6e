"""Two conversations of our own in the form of LoCoMo, with questions and annotations."""

import json
from pathlib import Path
from typing import Any

TALK = {
    "session_1_date_time": "10:15 am on 3 June, 2024",
    "session_1": [
        ("Ines", "I finally planted the quince tree behind the shed yesterday."),
        ("Tariq", "Lovely! Did your brother Paulo help you dig?"),
        ("Ines", "He did, and he broke the spade doing it."),
        ("Tariq", "I have joined a rowing club on the Douro, by the way."),
        ("Ines", "Since when do you row? You hated boats!"),
        ("Tariq", "Since my doctor told me that my back needs it."),
    ],
    "session_2_date_time": "6:40 pm on 21 August, 2024",
    "session_2": [
        ("Tariq", "We won our first regatta on Sunday, the whole crew cried."),
        ("Ines", "Congratulations! What boat do you row in?"),
        ("Tariq", "A four, she is called Andorinha.", "a slim white rowing boat on a river"),
        ("Ines", "My quince lost all its leaves in the heat, I fear it is dead."),
        ("Tariq", "Water it in the evening, mine survived like that."),
        ("Ines", "Paulo says the same. He brought me a new spade, too."),
    ],
}
QUESTIONS = [
    ("Who broke the spade?", 4, ["D1:3"], "Paulo"),
    ("What has become of the quince tree?", 1, ["D1:01; D2:4"], "planted, lost its leaves"),
    ("When did Tariq win a regatta?", 2, ["D2:1"], "18 August 2024"),
    ("What is the name of the rowing boat?", 4, ["D2:3"], "Andorinha"),
    ("Would Tariq enjoy a canoe trip?", 3, ["D:1:4"], "Yes; he rows"),
    ("What did Tariq break?", 5, ["D1:3"], "a spade"),
]


def conversation(name: str = "conv-1") -> dict[str, Any]:
    def turn(session: int, place: int, said: tuple[str, ...]) -> dict[str, str]:
        caption = {"blip_caption": said[2]} if len(said) > 2 else {}
        return {"speaker": said[0], "dia_id": f"D{session}:{place}", "text": said[1], **caption}

    sessions: dict[str, Any] = {"speaker_a": "Ines", "speaker_b": "Tariq", **TALK}
    for number in (1, 2):
        said = enumerate(TALK[f"session_{number}"], start=1)
        sessions[f"session_{number}"] = [turn(number, place, one) for place, one in said]
    asked = [
        {
            "question": question,
            "category": category,
            "evidence": evidence,
            "adversarial_answer" if category == 5 else "answer": answer,
        }
        for question, category, evidence, answer in QUESTIONS
    ]
    return {"sample_id": name, "conversation": sessions, "qa": asked}


def annotations() -> list[dict[str, Any]]:
    turns = [turn for n in (1, 2) for turn in conversation()["conversation"][f"session_{n}"]]
    records: dict[str, dict[str, Any]] = {
        turn["dia_id"]: {
            "id": turn["dia_id"],
            "keywords": turn["text"].split()[:2],
            "context": f"{turn['speaker']} says: {turn['text']}",
            "tags": ["garden" if "quince" in turn["text"] else "life"],
            "links": [],
            "updates": [],
        }
        for turn in turns
    }
    records["D2:4"]["links"] = [{"to": "D1:1", "why": "the same tree"}]
    records["D2:4"]["updates"] = [
        {"to": "D1:1", "context": "The quince tree Ines planted is dying.", "tags": ["loss"]}
    ]
    return list(records.values())


def write(folder: Path) -> tuple[Path, Path]:
    """Return the files of a dataset of two such conversations and of the annotations of the first."""
    dataset, written = folder / "tiny.json", folder / "conv-1.annotations.jsonl"
    dataset.write_text(json.dumps([conversation(), conversation("conv-2")]), encoding="utf-8")
    written.write_text("\n".join(map(json.dumps, annotations())), encoding="utf-8")
    return dataset, written
