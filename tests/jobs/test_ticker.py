"""A ticker does its work again and again, whatever goes wrong, until it is ended."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from django.db import DatabaseError, connection

from sessions_app.jobs.ticker import Ticker


class Counting(Ticker):
    """Counts its ticks, in which it asks adkweb's own database, and fails in the first ones."""

    def __init__(self, seconds: float, first: float = 0.0, failures: tuple[Exception, ...] = ()) -> None:
        super().__init__("counting", seconds, first)
        self.failures = list(failures)
        self.ticks: list[float] = []
        self.ticked = threading.Event()
        self.closed = 0

    def tick(self) -> None:
        self.ticks.append(time.monotonic())
        self.ticked.set()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if self.failures:
            raise self.failures.pop()

    def close(self) -> None:
        self.closed += 1

    def run(self) -> None:
        super().run()
        self.connected = connection.connection is not None


def wait_for_ticks(ticker: Counting, number: int) -> None:
    until = time.monotonic() + 20
    while len(ticker.ticks) < number:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_ticks_until_it_is_ended_and_then_closes_its_connection(own: str) -> None:
    ticker = Counting(0.05)
    began = time.monotonic()
    ticker.start()
    wait_for_ticks(ticker, 3)
    assert ticker.daemon
    assert ticker.ticks[2] - began >= 0.1
    ticker.end()
    ticker.join(20)
    assert not ticker.is_alive()
    assert ticker.closed == 1
    assert not ticker.connected


def test_it_waits_before_the_first_tick_if_it_is_told_to_and_can_be_ended_meanwhile(own: str) -> None:
    ticker = Counting(0.05, first=3600.0)
    ticker.start()
    assert not ticker.ticked.wait(0.3)
    ticker.end()
    ticker.join(20)
    assert not ticker.is_alive()
    assert ticker.ticks == []


def test_it_ticks_at_once_when_it_is_woken(own: str) -> None:
    ticker = Counting(3600.0)
    ticker.start()
    wait_for_ticks(ticker, 1)
    ticker.wake()
    wait_for_ticks(ticker, 2)
    ticker.end()
    ticker.join(20)
    assert not ticker.is_alive()
    assert len(ticker.ticks) == 2


def test_it_goes_on_after_an_error_and_says_so_in_the_log(own: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "adkweb.threads"):
        ticker = Counting(0.01, failures=(ZeroDivisionError("a mistake"), DatabaseError("it is away")))
        ticker.start()
        wait_for_ticks(ticker, 3)
        ticker.end()
        ticker.join(20)
    assert [record.getMessage() for record in caplog.records] == [
        "adkweb-counting waits: it is away",
        "adkweb-counting",
    ]
    assert caplog.records[1].exc_info
    assert "a mistake" in str(caplog.records[1].exc_info[1])
