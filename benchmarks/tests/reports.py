"""Reports in the form in which an evaluation writes them, with figures made up."""

from __future__ import annotations

from typing import Any

SYSTEMS = {
    "amem": 0.8,
    "amem_without_links": 0.7,
    "amem_without_evolution": 0.78,
    "dense": 0.4,
    "bm25": 0.45,
    "rrf": 0.5,
}
KS = (5, 10, 20)
MEASURES = ("f1", "bleu1", "rouge1", "rouge2", "rougeL", "meteor", "sbert")
CATEGORIES = "12345"
NOTHING = {"mean": None, "low": None, "high": None}


def estimate(mean: float) -> dict[str, float]:
    return {
        "mean": round(mean, 4),
        "low": round(max(mean - 0.05, 0), 4),
        "high": round(min(mean + 0.05, 1), 4),
    }


def difference(value: float) -> dict[str, Any]:
    bounds = {"low": round(value - 0.04, 4), "high": round(value + 0.04, 4)}
    return {"difference": round(value, 4), **bounds, "other_side": 0.1, "questions": 40}


def report(*, answers: bool = True) -> dict[str, Any]:
    found = {
        "notes": 120,
        "questions": {"used": 40, "skipped": 2, "by_category": dict.fromkeys(CATEGORIES, 10)},
        "retrieval": {name: _retrieval(mean) for name, mean in SYSTEMS.items()},
        "retrieval_against": {
            name: {
                measure: {str(k): difference(0.8 - mean) for k in KS}
                for measure in ("recall", "all_evidence")
            }
            for name, mean in SYSTEMS.items()
            if name != "amem"
        },
        "builds": {"amem": _build(35), "amem_without_evolution": _build(30)},
        "latency_ms": {"search_p50": 3.0, "search_p95": 5.0, "embed_query_p50": 2.0},
        "costs": {"build": {"calls": 65, "input_tokens": 99, "output_tokens": 9, "cost": 1.5}},
        "settings": {
            "k": list(KS),
            "dataset": {"file": "tiny.json", "sha256": "0" * 64},
            "embedder": {"name": "hash", "dimensions": 64},
        },
    }
    one = {**found, "written_by": "rules"}
    found["conversations"] = {"conv-1": one, "conv-2": one}
    return found | ({"answers": _answers(), "answered_from": 10} if answers else {})


def sweep() -> dict[str, Any]:
    ks = [10, 20, 30]

    def curves(mean: float) -> dict[str, Any]:
        rising = {str(k): estimate(mean + k / 200) for k in ks}
        known = {"all": rising, **dict.fromkeys(CATEGORIES, rising)}
        nothing = {"5": {str(k): NOTHING for k in ks}}
        return {"recall": known | nothing, "all_evidence": known | nothing, "f1": known}

    return {
        "ks": ks,
        "chosen_on": ["conv-1"],
        "reported_on": ["conv-2", "conv-3"],
        "curves": {"chosen_on": curves(0.5), "reported_on": curves(0.45)},
        "choice": {"f1": {"k": 30, "reported": estimate(0.6)}},
        "settings": {"k": ks},
    }


def scale() -> dict[str, Any]:
    def row(notes: int) -> dict[str, Any]:
        times = {"search_ms": 2.0, "without_links_ms": 1.5, "engine_ms": 1.0, "dense_scan_ms": 0.5}
        return {
            "notes": notes,
            "links": 3.5,
            "insert_ms": 0.6,
            **{
                name: {"p50": ms * notes / 500, "p95": ms * notes / 400}
                for name, ms in times.items()
            },
            "memory_mb": 100.0 + notes / 100,
            "private_mb": notes / 100,
            "disk_mb": notes / 50,
            "vectors_mb": notes / 700,
        }

    settings = {"dimensions": 384, "links": 2, "queries": 50, "k": 10, "rounds": 4}
    return {"rows": [row(1000), row(10_000)], "settings": settings}


def notes() -> dict[str, Any]:
    def view(purity: float) -> dict[str, Any]:
        return {
            "points": [[float(n % 5), float(n // 5)] for n in range(20)],
            "silhouette": -0.05,
            "silhouette_interval": [-0.06, -0.04],
            "silhouette_chance": -0.08,
            "purity": purity,
            "purity_interval": [purity - 0.02, purity + 0.02],
            "chance": 0.055,
        }

    return {
        "conversation": "conv-1",
        "sessions": [f"session_{1 + n // 5}" for n in range(20)],
        "links": [[n, n + 1] for n in range(12)],
        "neighbours": 5,
        "views": {"content": view(0.213), "enriched": view(0.324), "evolved": view(0.328)},
    }


def dialsim() -> dict[str, Any]:
    group = {"questions": 20, "accuracy": estimate(0.6), "refused": 0.25}
    opened = {**group, "accuracy": NOTHING, "official": {"f1": estimate(0.3)}}

    def figures(one: dict[str, Any]) -> dict[str, Any]:
        kinds = {"tv/simple": one}
        return {**one, "unreadable": 0, "answerable": one, "unanswerable": one, "by_kind": kinds}

    return {
        "caution": "Tested on a small show only.",
        "show": "friends",
        "agent": "Ross",
        "sessions": 3,
        "notes": 50,
        "questions": {"asked": 20, "unanswerable": 8},
        "answers": {"choice": figures(group), "open": figures(opened)},
        "settings": {"seed": 0},
    }


def every() -> dict[str, dict[str, Any]]:
    """Return all reports by the name of their file."""
    made = {"report": report(), "sweep": sweep(), "scale": scale()}
    return {**made, "notes": notes(), "dialsim": dialsim()}


def _retrieval(mean: float) -> dict[str, Any]:
    shares = {str(k): round(min(mean + k / 200, 1), 4) for k in KS}
    measured = {"recall": shares, "all_evidence": shares}
    return {
        **measured,
        "recall_interval": {k: [round(one - 0.05, 4), one] for k, one in shares.items()},
        "by_category": dict.fromkeys(CATEGORIES, measured),
    }


def _build(calls: int) -> dict[str, Any]:
    counts = {"notes": 120, "model_calls": calls, "input_tokens": 9000, "output_tokens": 800}
    made = {"links": 70, "updates": 12, "calls_per_note": round(calls / 120, 4)}
    return {**counts, **made, "candidate_recall": 0.9, "unfinished": 0, "seconds": 2.5}


def _answers() -> dict[str, Any]:
    systems = {**SYSTEMS, "full": 0.5}
    answers = {
        name: {
            "questions": 50,
            "context_tokens": 9000.0 if name == "full" else 400.0,
            "saved": 0.0 if name == "full" else 0.95,
            "unanswered": 0,
            **_marks(mean / 2),
            "by_category": {one: {"questions": 10, **_marks(mean / 3)} for one in CATEGORIES},
        }
        for name, mean in systems.items()
    }
    answers["amem"]["against"] = {
        name: {
            "official": {
                "f1": {
                    **difference((0.8 - mean) / 2),
                    "by_category": dict.fromkeys(CATEGORIES, difference(0.1)),
                }
            }
        }
        for name, mean in systems.items()
        if name != "amem"
    }
    return answers


def _marks(mean: float) -> dict[str, Any]:
    return {scoring: dict.fromkeys(MEASURES, estimate(mean)) for scoring in ("official", "amem")}
