"""Shows in the form of DialSim's files.

`data/harbour_dialsim.json` is one of our own; `data/harbour_dialsim.pickle` is the same as the dataset is
published: `pickle.dump(as_published(json), file, protocol=4)`.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from benchmarks.evaluation import dialsim

JSON = Path(__file__).parent / "harbour_dialsim.json"
PICKLE = JSON.with_suffix(".pickle")
AGENT = "Nell"
UNKNOWN = "I don't know. (None of the above)"

Data = dict[str, Any]


def harbour() -> Data:
    """Return what the file of the harbour holds."""
    data: Data = json.loads(JSON.read_text(encoding="utf-8"))
    return data


def as_published(data: Data) -> Data:
    """Return a show with numbers where JSON has them as text."""
    return {
        episode: {int(number): _numbered(session) for number, session in sessions.items()}
        for episode, sessions in data.items()
    }


def question(answer: str = "Tea", **changes: Any) -> Data:
    """Return a question of which everyone has the same wording."""
    return {
        "questions": {"default": "What does Ann drink?"},
        "options": ["Milk", "Tea", "Cocoa", "Rain", UNKNOWN],
        "answer": answer,
        **changes,
    }


def session(script: str = "Ann: Tea, please.\nBen: Here you are.", **changes: Any) -> Data:
    """Return a session with one question of the knowledge graph."""
    return {
        "date": "May 5, 2005",
        "script": script,
        "hard_q": {"cur": [question()]},
        "easy_q": {},
        **changes,
    }


def written(folder: Path, data: object, *, protocol: int | None = None) -> Path:
    """Return a file that holds the data: as JSON, or pickled by a protocol."""
    path = folder / ("tea_dialsim.json" if protocol is None else "tea_dialsim.pickle")
    raw = json.dumps(data).encode() if protocol is None else pickle.dumps(data, protocol=protocol)
    path.write_bytes(raw)
    return path


def loaded(folder: Path, *sessions: Data, agent: str = "Ann") -> dialsim.Show:
    """Return the show of some sessions of one episode."""
    data = {"S01E01": {str(number): one for number, one in enumerate(sessions, start=1)}}
    return dialsim.load(written(folder, data), agent=agent)


def _numbered(session: Data) -> Data:
    kinds = session["easy_q"]
    easy = kinds and {kind: {int(n): q for n, q in some.items()} for kind, some in kinds.items()}
    return {**session, "easy_q": easy}
