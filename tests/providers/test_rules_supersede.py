"""The rules that tell which earlier statement a later one takes the place of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from amem_integrations.providers.rules_supersede import Statement, supersession, supersessions

DAY = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


def verdict(older, newer, similarity=0.6, *, speakers=("Ada", "Ada"), later=timedelta(days=20)):
    return supersession(
        Statement(older, speakers[0], at=DAY),
        Statement(newer, speakers[1], at=DAY + later),
        similarity,
    )


def relation(*args, **kwargs):
    found = verdict(*args, **kwargs)
    return found and found.relation


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Seattle.", "We finally moved to Denver last weekend!"),
        ("My phone is an iPhone 12.", "Upgraded to the Pixel 9 yesterday."),
        ("The project deadline is June 30.", "They extended the project deadline to July 15."),
        ("My bank is Norden.", "I left Norden, my bank is Fjell now."),
        ("Our team lead is Sarah.", "Sarah left, so Mike is our team lead now."),
        ("The standup is at 9am.", "Starting Monday standup will be at 9:30am."),
        ("We're planning to visit Japan in April.", "The Japan trip got moved to October."),
        ("The monthly fee is $20.", "The monthly fee went up to $25."),
        ("My locker combination is 12-34-56.", "My new locker combination is 22-18-40."),
        ("The concert is at the Apollo.", "The concert venue has changed to the Roxy."),
        ("Wir wohnen in Kassel.", "Wir sind nach Freiburg gezogen."),
        ("La reunión es los lunes a las nueve.", "La reunión pasa a los martes a las diez."),
        ("名古屋に住んでいます。", "先月、仙台に引っ越しました。"),
    ],
)
def test_a_change_updates(older, newer):
    assert relation(older, newer) == "updates"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The kickoff is in room 214.", "Correction, the kickoff is in room 241."),
        ("Our anniversary is May 5.", "No wait, our anniversary is May 6, I always mix it up."),
        ("My blood type is A.", "Turns out my blood type is not A, the blood type is O."),
        ("Mein Termin ist am 24. März.", "Stimmt nicht, mein Termin ist am 26. März."),
    ],
)
def test_a_correction_corrects(older, newer):
    assert relation(older, newer) == "corrects"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I'm learning French.", "I stopped taking French lessons."),
        ("My gym membership is with PlanetFit.", "I cancelled my gym membership."),
        ("My boyfriend's name is Jake.", "Jake and I broke up last month."),
        ("The picnic is on Saturday.", "The picnic is cancelled."),
        ("Je fais du yoga tous les jeudis.", "Je ne fais plus de yoga."),
    ],
)
def test_an_end_retracts(older, newer):
    assert relation(older, newer) == "retracts"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My sister Anja lives in Oslo.", "My other sister, Birgit, lives in Trondheim."),
        ("I ran a marathon in Hamburg.", "Did another marathon, in Amsterdam."),
        ("I finished The Salt Road.", "Finished one more, Paper Herons."),
        ("I'm allergic to cats.", "I'm allergic to dust as well."),
        ("Meine Schwester wohnt in Bremen.", "Meine zweite Schwester wohnt jetzt in Jena."),
    ],
)
def test_what_adds_supersedes_nothing(older, newer):
    assert relation(older, newer, 0.8) is None


@pytest.mark.parametrize(
    "newer",
    [
        "I wish I lived in Paris now.",
        "I'd love to move to Paris.",
        "If we won the lottery, we would move to Paris.",
        "We might move to Paris next year.",
        "We're thinking about moving to Paris.",
        "Should we move to Paris?",
        "That's it, I moved to the moon, just kidding.",
        'The film ends with "I moved to Paris and never came back".',
        "My neighbour keeps saying that we moved to Paris.",
        "Back in 2019 I moved to Paris for a year.",
        "I used to live in Paris.",
    ],
)
def test_wishes_jokes_questions_quotes_plans_and_the_past_supersede_nothing(newer):
    assert relation("I live in Turin.", newer, 0.7) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Norwich.", "My brother has moved to Exeter."),
        ("The design team meets on Mondays at 10.", "The platform team now meets at 14:00."),
        ("My work phone is 040 555 210.", "My home phone is 040 555 877."),
        ("The deadline for project A is Friday.", "The deadline for project B is Monday."),
        ("The fee for the gym is $20.", "The fee for the pool is $25."),
        ("My best friend is Mia.", "Mia moved to Spain."),
        ("I'm an optician in Hull.", "Dad has retired, no longer an optician."),
    ],
)
def test_another_person_or_thing_supersedes_nothing(older, newer):
    assert relation(older, newer, 0.7) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Gdańsk.", "Here in Gdańsk, where I live, spring takes its time."),
        ("The party is on the 19th at six.", "The party is on the 19th at 6 pm, see you there."),
        ("Our wedding is on September 12.", "Our wedding on September 12 starts at 15:00."),
        ("Our wedding is on September 12.", "We changed the flowers for the wedding."),
    ],
)
def test_repeating_or_adding_detail_supersedes_nothing(older, newer):
    assert relation(older, newer, 0.85) is None


def test_events_of_different_days_do_not_exclude_each_other():
    assert relation("Paid the bill, 84 euros.", "Paid the bill, 91 euros.", 0.95) is None


def test_what_another_speaker_says_of_themselves_supersedes_nothing():
    speakers = ("Ada", "Ben")
    assert relation("I live in Malmö.", "I've moved to Uppsala.", speakers=speakers) is None
    assert relation("I live in Malmö.", "I've moved to Uppsala.") == "updates"


def test_another_speaker_who_gives_another_value_contradicts():
    older, newer = "The choir was founded in 1978.", "The choir was founded in 1981."
    assert relation(older, newer, 0.9, speakers=("Ada", "Ben")) == "contradicts"


def test_a_speaker_without_a_name_is_not_the_assistant():
    older = Statement("I live in Turin.", at=DAY)
    newer = Statement("You moved to Milan.", source="assistant", at=DAY + timedelta(days=1))
    assert supersession(older, newer, 0.6) is None


def test_unrelated_statements_are_not_compared_by_words_of_change_alone():
    assert relation("I live in Turin.", "We moved the couch to the window.", 0.1) is None


def test_a_bare_correction_means_the_last_statement_that_fits():
    party, exam = (
        Statement("The party is on May 3.", "Ada", at=DAY),
        Statement("The exam is on May 9.", "Ada", at=DAY + timedelta(minutes=2)),
    )
    newer = Statement("Sorry, I meant May 10.", "Ada", at=DAY + timedelta(minutes=3))
    first, second = supersessions(newer, [(party, 0.5), (exam, 0.5)])
    assert first is None
    assert second is not None
    assert second.relation == "corrects"


def test_a_bare_correction_long_after_corrects_nothing():
    assert relation("The party is on May 3.", "Sorry, I meant May 10.", 0.5) is None


def test_one_statement_may_end_several():
    newer = Statement("Crete is cancelled, the flight to Crete and the Hotel Minos.", "Ada", at=DAY)
    older = [
        (Statement("We fly to Crete on May 4.", "Ada", at=DAY - timedelta(days=9)), 0.6),
        (Statement("In Crete we stay at the Hotel Minos.", "Ada", at=DAY - timedelta(days=8)), 0.6),
    ]
    assert [found and found.relation for found in supersessions(newer, older)] == ["retracts"] * 2


def test_a_temporary_exception_updates():
    older, newer = "The dog sleeps in the kitchen.", "Until Friday the dog sleeps in the garage."
    assert relation(older, newer) == "updates"
    assert relation(older, newer.replace("Until Friday t", "T")) is None


def test_the_reason_names_what_both_are_about():
    found = verdict("Rent is 850 a month.", "Rent goes up to 920 from July.")
    assert found is not None
    assert "rent" in found.reason


@pytest.mark.parametrize("content", ["", "?", "...", "🙂", "   ", "Haha"])
def test_a_statement_without_words_supersedes_nothing(content):
    assert relation("I live in Turin.", content, 1.0) is None
    assert relation(content, "I moved to Milan.", 1.0) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "content", ["a" * 50_000, "1" * 50_000, "I moved to Rome. Not so. " * 2000]
)
def test_a_long_text_is_read_quickly(content):
    assert relation("I live in Turin.", content, 0.1) is None
