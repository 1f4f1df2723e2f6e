"""Until when a statement says that it holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from amem_integrations.providers.rules_until import read_until

MONDAY = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "last_day"),
    [
        ("This week the stand-up is at 11.", "2026-03-08"),
        ("The office is closed this month.", "2026-03-31"),
        ("Visitors park at the school until Friday.", "2026-03-06"),
        ("I am on call through March 10.", "2026-03-10"),
        ("The pool is shut till 3 April.", "2026-04-03"),
        ("Dr Mensah is my GP until the 5th.", "2026-03-05"),
        ("I'm in Rome until the 1st.", "2026-04-01"),
        ("We stay at the lake until January 4.", "2027-01-04"),
        ("The gate stays shut until April.", "2026-03-31"),
        ("Room 3 is ours until the end of April.", "2026-04-30"),
        ("I work from home until the end of the week.", "2026-03-08"),
        ("The lift is out of order until tomorrow.", "2026-03-03"),
        ("For the next two weeks I take the 47.", "2026-03-16"),
        ("For the next month I teach the late class.", "2026-04-02"),
        ("Over the next 10 days the shop opens at noon.", "2026-03-12"),
        ("Today only the bakery closes at 14:00.", "2026-03-02"),
        ("Just for tomorrow, Grandpa picks up the kids.", "2026-03-03"),
        ("Only this Wednesday we meet at the pub.", "2026-03-04"),
        ("The code is 4471 until 2026-03-20.", "2026-03-20"),
        ("Bis Freitag ist die Probe in der Aula.", "2026-03-06"),
        ("Diese Woche ist die Probe am Donnerstag.", "2026-03-08"),
        ("Die Halle ist bis zum 15. März zu.", "2026-03-15"),
        ("Jusqu'au 12 mars je dors chez Luc.", "2026-03-12"),
        ("Esta semana la clase es a las nueve.", "2026-03-08"),
        ("Hasta el viernes trabajo en casa.", "2026-03-06"),
        ("今週は朝会が11時です。", "2026-03-08"),
        ("金曜日まで在宅勤務です。", "2026-03-06"),
    ],
)
def test_the_last_day_is_read(content, last_day):
    expected = datetime.fromisoformat(f"{last_day}T23:59:59+00:00")
    assert read_until(content, MONDAY) == expected


@pytest.mark.parametrize(
    "content",
    [
        "Stand-up is at 10.",
        "The shop is open until 6.",
        "The shop is open Monday through Friday.",
        "I can't wait until Friday.",
        "The results are not out until Friday.",
        "It was so hot this week.",
        "We went to the lake this month.",
        "Two days until Friday.",
        "I have worked here for two weeks.",
        "Until February 30 nothing happens.",
        "",
    ],
)
def test_no_end_is_read_where_none_is_named(content):
    assert read_until(content, MONDAY) is None


def test_the_end_is_in_the_time_zone_of_the_statement():
    tokyo = timezone(timedelta(hours=9))
    found = read_until("This week the stand-up is at 11.", MONDAY.astimezone(tokyo))
    assert found == datetime(2026, 3, 8, 23, 59, 59, tzinfo=tokyo)


def test_a_week_that_ends_on_the_day_of_the_statement_is_not_over():
    sunday = MONDAY + timedelta(days=6)
    found = read_until("This week the stand-up is at 11.", sunday)
    assert found is not None
    assert found.date() == sunday.date()


def test_the_end_of_a_short_month_is_its_last_day():
    last_of_january = datetime(2026, 1, 31, tzinfo=UTC)
    found = read_until("For the next month I teach the late class.", last_of_january)
    assert found == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
