"""What strategies keep of the facts in runs, as a table or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

from ..condensers.base import CannotCondense
from ..events.formats.runs import Run
from .planted import planted_run
from .report import CannotRun, plain_table, print_json
from .retention import Count, Fate, Retention, facts_in, retention_of

__all__ = ["report_retention"]

_PLANTED = 8  # facts of each kind at each place
_AGES = (100, 30, 10, 0)  # LLM turns since a fact was told: where a line of the table begins


def report_retention(runs: Iterable[Run] | None, condensers: list[str], *, as_json: bool) -> None:
    """Prints what each condenser keeps of all runs (None: of a made-up one with planted facts)."""
    found: dict[str, Retention] = dict.fromkeys(condensers, Retention((), 0))
    if runs is None:
        events, facts = planted_run(_PLANTED)
        for name in condensers:
            found[name] = retention_of(events, name, facts)
    for run in runs or ():
        facts = facts_in(run.events)
        for name in condensers:
            try:
                one = retention_of(run, name, facts)
            except CannotCondense as error:
                raise CannotRun(f"{run.name} with {name}: {error}") from error
            so_far = found[name]
            found[name] = Retention(
                [*so_far.fates, *one.fates], so_far.condensations + one.condensations
            )
    rows = [(name, *row) for name, one in found.items() for row in _rows(one)]
    if as_json:
        for name, by, word, count in rows:
            print_json(
                {"kind": "retention", "condenser": name, "by": by, "is": word, **asdict(count)}
            )
        return
    print(
        plain_table(
            ("condenser", "kind", "facts", "forgotten", "given", "kept"),
            (
                [
                    name,
                    word if by == "all" else f"{by} {word}",
                    count.facts,
                    count.forgotten,
                    _share(count.given, count.forgotten),
                    _share(count.kept, count.forgotten),
                ]
                for name, by, word, count in rows
                if count.forgotten or by == "all"
            ),
            wide="condenser",
        )
    )


def _rows(found: Retention) -> Iterator[tuple[str, str, Count]]:
    """By what, which, and the numbers."""
    for by, key in (("kind", _kind), ("told by", _where)):
        for word, count in found.by(key).items():
            yield by, word, count
    for age, count in found.by(_age).items():
        yield "age", f"{age}+", count
    yield "all", "all", found.total


def _kind(fate: Fate) -> str:
    return fate.fact.kind


def _where(fate: Fate) -> str:
    return fate.fact.where


def _age(fate: Fate) -> int:
    return next(age for age in _AGES if fate.age >= age)


def _share(part: int | None, whole: int) -> str:
    return "-" if part is None or not whole else f"{part / whole:.0%}"
