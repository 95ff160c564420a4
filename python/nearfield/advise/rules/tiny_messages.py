"""Many small messages to one peer where one would do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from nearfield.advise.costs import difference, scaled
from nearfield.advise.rule import Lost, RuleSpec, number
from nearfield.advise.run import Run, Site
from nearfield.notes import Evidence, Note, Rule
from nearfield.profile.compare import Estimate
from nearfield.units import format_bytes

LEAST = 3  # messages in a row, on average

RULE = Rule(
    "tiny-messages",
    "Many small messages go to one peer in a row",
    "Each message costs its latency, however small it is. Between these the rank used nothing that it received, and "
    "changed nothing that it had sent, so that their data could go in one.",
    "The sum of latencies against that of one message, both from the profile",
)


def find(run: Run) -> Iterator[Note]:
    """Yields a note for each line that sends several small messages in a row to one peer."""
    together: dict[Site, list[tuple[int, int, float, float]]] = defaultdict(list)
    for rank, its in enumerate(run.ranks):
        for burst in its.found.bursts:
            count = burst.messages / burst.bursts
            if count >= LEAST:
                each = burst.bytes / burst.messages
                together[run.sites[rank][burst.call]].append((rank, burst.bursts, count, each))
    for site, bursts in together.items():
        lost = Lost()
        for rank, times, count, each_bytes in bursts:
            found = _times(run, site, count, each_bytes)
            if found and found[0].value > found[1].value:
                lost.add(rank, difference(*found), found[0].value, times)
        if not lost.calls:
            continue
        _, times, count, each_bytes = max(bursts, key=lambda one: one[1] * one[2])
        many, one = _times(run, site, count, each_bytes) or (Estimate(0, 0, 0),) * 2
        of = format_bytes(each_bytes, digits=3)
        yield Note(
            RULE, site.place,
            f"tiny messages: {count:.0f} messages of {of} to one rank in a row, {times} times; one message of "
            f"{format_bytes(count * each_bytes, digits=3)} would save {lost.per_call().replace('call', 'row')}",
            "Collect the data and send them in one message, unless the receiver needs the first ones early.",
            lost.loss(run),
            evidence=(
                Evidence("messages in a row", count, "count", "counted"),
                number(f"{count:.0f} messages of {of}", many, run.inside),
                number("one message of all", one, run.inside),
            ),
        )  # fmt: skip


def _times(run: Run, site: Site, count: float, each_bytes: float) -> tuple[Estimate, Estimate] | None:
    """Returns the time of all messages, and of one with their data. Senders that wait for no answer spend what Send
    takes, others a message's whole time."""
    answered = "recv" in site.name.lower()
    costs = run.inside if run.inside.place else run.across

    def time(size_bytes: float) -> Estimate | None:
        size = max(1, round(size_bytes))
        return costs.message(size) if answered else costs.send(size, "modified") or costs.message(size)

    each, whole = time(each_bytes), time(count * each_bytes)
    return (scaled(each, count), whole) if each and whole else None


SPEC = RuleSpec(RULE, find, scenarios=("pingpong",))
