"""Every cell of the three tables of conflicts, against a list written by hand."""

import pytest

from conflict_cases import ALL_CASES, instants_of
from conflict_tables import DOCUMENT, as_markdown, document
from lakehand.core.conflict_tables import JUDGED, TABLES, Case, Order, Strategy, Verdict, Versions
from lakehand.core.conflicts import judge, rule_for
from lakehand.core.footprints import Kind, Standing
from lakehand.errors import InvariantBroken

# A cell holds one letter for each state of the other instant: requested, inflight and live,
# inflight and expired, committed. '.' = allow, 'R' = refuse, 'C' = cancel the other.
# Rows are mine, columns the other: Ingestion, Overwrite, Compaction, Log compaction, clUstering;
# the small c's are cancellable.
_EXPECTED = {
    (Strategy.SIMPLE, Versions.FROM_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R RRRR .... ...R RRRR
            O    ...R ...R .... ...R RRRR .... ...R RRRR
            C    .... .... .... .... .... .... .... ....
            L    .... .... .... .... .... .... .... ....
            U    .... .... .... .... .... .... .... ....
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... .... .... .... .... .... ....
            cU   .... .... .... .... .... .... .... ....""",
    (Strategy.SIMPLE, Versions.FROM_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R .RRR .... ...R RRRR .... ...R RRRR
            O    ...R .RRR .... ...R RRRR .... ...R RRRR
            C    .... .... .... .... .... .... .... ....
            L    .... .... .... .... .... .... .... ....
            U    .... .... .... .... .... .... .... ....
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... .... .... .... .... .... ....
            cU   .... .... .... .... .... .... .... ....""",
    (Strategy.SIMPLE, Versions.BEFORE_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R RRRR .... ...R RRRR
            O    ...R ...R .... ...R RRRR .... ...R RRRR
            C    .... .... .... .... .... .... .... ....
            L    .... .... .... .... .... .... .... ....
            U    .... .... .... .... .... .... .... ....
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... .... .... .... .... .... ....
            cU   .... .... .... .... .... .... .... ....""",
    (Strategy.SIMPLE, Versions.BEFORE_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R .RRR RRRR ...R RRRR RRRR ...R RRRR
            O    ...R .RRR RRRR ...R RRRR RRRR ...R RRRR
            C    .... .... .... .... .... .... .... ....
            L    .... .... RRRR .... .... RRRR .... ....
            U    .... .... .... .... .... .... .... ....
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... RRRR .... .... RRRR .... ....
            cU   .... .... .... .... .... .... .... ....""",
    (Strategy.PREFER_WRITER, Versions.FROM_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R ...R .... ...R ...R
            O    ...R ...R .... ...R ...R .... ...R ...R
            C    .... .... .... .... .... .... .... ....
            L    .... .... .... .... .... .... .... ....
            U    .RRR .RRR .... ...R ...R .... ...R ...R
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... .... .... .... .... .... ....
            cU   .RRR .RRR .... ...R ...R .... ...R ...R""",
    (Strategy.PREFER_WRITER, Versions.FROM_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R ...R ...R ...R ...R ...R ...R
            O    ...R ...R ...R ...R ...R ...R ...R ...R
            C    .... .... .... .... .... .... .... ....
            L    .... .... ...R .... .... ...R .... ....
            U    .RRR .RRR ...R ...R ...R ...R ...R ...R
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... ...R .... .... ...R .... ....
            cU   .RRR .RRR ...R ...R ...R ...R ...R ...R""",
    (Strategy.PREFER_WRITER, Versions.BEFORE_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R ...R .... ...R ...R
            O    ...R ...R .... ...R ...R .... ...R ...R
            C    .... .... .... .... .... .... .... ....
            L    .... .... .... .... .... .... .... ....
            U    .RRR .RRR .... ...R .RRR .... ...R .RRR
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... .... .... .... .... .... ....
            cU   .RRR .RRR .... ...R .RRR .... ...R .RRR""",
    (Strategy.PREFER_WRITER, Versions.BEFORE_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R RRRR ...R ...R RRRR ...R ...R
            O    ...R ...R RRRR ...R ...R RRRR ...R ...R
            C    .... .... .... .... .... .... .... ....
            L    .... .... RRRR .... .... RRRR .... ....
            U    .RRR .RRR ...R ...R .RRR ...R ...R .RRR
            cC   .... .... .... .... .... .... .... ....
            cL   .... .... RRRR .... .... RRRR .... ....
            cU   .RRR .RRR ...R ...R .RRR ...R ...R .RRR""",
    (Strategy.PREFER_INGESTION, Versions.FROM_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            O    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            C    .... .... ...R ...R ...R CCCR CCCR CCCR
            L    .... .... ...R ...R ...R CCCR CCCR CCCR
            U    ...R ...R ...R ...R ...R CCCR CCCR CCCR
            cC   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cL   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cU   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R""",
    (Strategy.PREFER_INGESTION, Versions.FROM_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            O    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            C    .... .... ...R ...R ...R CCCR CCCR CCCR
            L    .... .... ...R ...R ...R CCCR CCCR CCCR
            U    ...R ...R ...R ...R ...R CCCR CCCR CCCR
            cC   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cL   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cU   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R""",
    (Strategy.PREFER_INGESTION, Versions.BEFORE_8, Order.EARLIER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            O    ...R ...R .... ...R RRRR CCCR CCCR CCCR
            C    ...R ...R ...R ...R ...R CCCR CCCR CCCR
            L    .... .... ...R ...R ...R CCCR CCCR CCCR
            U    ...R ...R ...R ...R ...R CCCR CCCR CCCR
            cC   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cL   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cU   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R""",
    (Strategy.PREFER_INGESTION, Versions.BEFORE_8, Order.LATER): """
                 I    O    C    L    U    cC   cL   cU
            I    ...R ...R RRRR ...R RRRR RRRR CCCR CCCR
            O    ...R ...R RRRR ...R RRRR RRRR CCCR CCCR
            C    .... .... ...R ...R ...R CCCR CCCR CCCR
            L    .... .... RRRR ...R ...R RRRR CCCR CCCR
            U    ...R ...R ...R ...R ...R CCCR CCCR CCCR
            cC   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R
            cL   .R.R .R.R RRRR RRRR RRRR RRRR ...R ...R
            cU   .R.R .R.R RRRR RRRR RRRR ...R ...R ...R""",
}
_KINDS = {
    "I": Kind.INGESTION,
    "O": Kind.OVERWRITE,
    "C": Kind.COMPACTION,
    "L": Kind.LOG_COMPACTION,
    "U": Kind.CLUSTERING,
    "cC": Kind.CANCELLABLE_COMPACTION,
    "cL": Kind.CANCELLABLE_LOG_COMPACTION,
    "cU": Kind.CANCELLABLE_CLUSTERING,
}
_STANDINGS = (
    Standing.REQUESTED,
    Standing.INFLIGHT_LIVE,
    Standing.INFLIGHT_EXPIRED,
    Standing.COMMITTED,
)
_LETTERS = {".": Verdict.ALLOW, "R": Verdict.REFUSE, "C": Verdict.CANCEL_OTHER}


def expected(strategy):
    """The list above as case -> verdict."""
    found = {}
    for (named, versions, order), text in _EXPECTED.items():
        if named is not strategy:
            continue
        head, *rows = text.strip().splitlines()
        for row in rows:
            mine, *cells = row.split()
            for column, cell in zip(head.split(), cells, strict=True):
                for standing, letter in zip(_STANDINGS, cell, strict=True):
                    case = Case(versions, _KINDS[mine], _KINDS[column], standing, order)
                    found[case] = _LETTERS[letter]
    return found


def judged(case, strategy):
    """The verdict that ``judge`` makes of an example of ``case``."""
    mine, other = instants_of(case)
    judgement = judge(mine, [other], strategy)
    if judgement.refusals:
        return Verdict.REFUSE
    return Verdict.CANCEL_OTHER if judgement.cancels else Verdict.ALLOW


@pytest.mark.parametrize("strategy", Strategy, ids=lambda one: one.value)
def test_every_cell_is_as_the_list_written_by_hand_says(strategy):
    listed = expected(strategy)
    assert set(listed) == set(ALL_CASES)
    verdicts = {case: judged(case, strategy) for case in ALL_CASES}
    assert {case: one for case, one in verdicts.items() if one is not listed[case]} == {}


@pytest.mark.parametrize(
    ("strategy", "number"),
    [(strategy, number) for strategy in Strategy for number in range(len(TABLES[strategy]))],
    ids=lambda value: value.value if isinstance(value, Strategy) else str(value + 1),
)
def test_every_row_decides_something_and_is_obeyed(strategy, number):
    row = TABLES[strategy][number]
    cases = [case for case in ALL_CASES if rule_for(strategy, case) is row]
    assert cases, f"row {number + 1} stands behind rows that take all its cases"
    for case in cases:
        mine, other = instants_of(case)
        assert judged(case, strategy) is row.verdict
        for refusal in judge(mine, [other], strategy).refusals:
            assert refusal.reason == row.why
            assert refusal.other is other
            assert refusal.groups == mine.footprint.groups


def test_hudis_tables_cancel_nothing():
    for strategy in (Strategy.SIMPLE, Strategy.PREFER_WRITER):
        assert Verdict.CANCEL_OTHER not in {row.verdict for row in TABLES[strategy]}


def test_a_table_is_not_asked_about_what_never_commits():
    for standing in set(Standing) - JUDGED:
        case = Case(Versions.FROM_8, Kind.INGESTION, Kind.INGESTION, standing, Order.LATER)
        with pytest.raises(InvariantBroken, match="no row"):
            rule_for(Strategy.SIMPLE, case)


def test_the_document_is_current():
    assert DOCUMENT.read_text(encoding="utf-8") == document(), (
        "run: python tests/support/conflict_tables.py --write"
    )


@pytest.mark.parametrize("strategy", Strategy, ids=lambda one: one.value)
def test_the_document_shows_every_row(strategy):
    section = as_markdown(strategy)
    for row in TABLES[strategy]:
        assert f"**{row.verdict.value}** | {row.why} |" in section
