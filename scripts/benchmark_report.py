"""Medians, spread and ratios of a benchmark, and the Markdown that says them.

A contest is run in turns: every contestant once, then every contestant again. With m_a(k) the median of what contestant a
showed in turn k, the ratio is taken within each turn, where the machine was the same to both:

    r(k) = m_a(k) / m_b(k)        ratio = median of r(k), spread = min r(k) to max r(k)

Ratios of wall time are what is to be reached. The same in CPU time stands beside: other processes disturb it less, and it
does not see idle cores.
"""

import collections
import operator
import statistics

Ratio = collections.namedtuple("Ratio", "median low high")
Ratio.__doc__ = """A ratio over the turns of a contest: its median, and the least and greatest."""
COMPARE = {"<=": operator.le, ">=": operator.ge}


def ratio(row, turns, cpu=False):
    """The `Ratio` of a row of `scripts.benchmark_contests` over turns, each a dict from contestant to result.

    Returns None where a contestant has no result, and with `cpu` where the row has no ratio in CPU time.
    """
    value = row.cpu_value if cpu else row.value
    values = [value(turn) for turn in turns if value and all(name in turn for name in row.contestants)]
    return Ratio(statistics.median(values), min(values), max(values)) if values else None


def reached(row, found):
    """Whether the median is on the right side of what was to be reached."""
    return COMPARE[row.compare](found.median, row.goal)


def outcome(row, found):
    """'yes' or 'no'; where not every turn agrees with the median, it says so."""
    if found is None:
        return "not measured"
    text = "yes" if reached(row, found) else "no"
    ends = {COMPARE[row.compare](end, row.goal) for end in (found.low, found.high)}
    return text if len(ends) == 1 else text + ", but not in every turn"


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    digits = max(0, 2 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
    return "{:,.{}f}".format(value, digits)


def spread(values):
    """'median (min to max)' of numbers; '-' of none."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    return "{} ({} to {})".format(number(statistics.median(values)), number(min(values)), number(max(values)))


def table(contests, results):
    """The Markdown table of all rows.

    Args:
        contests: a list of `scripts.benchmark_contests.Contest`.
        results: a dict from a contest's name to {'turns': [...], 'failed': {contestant: why}}.
    """
    lines = ["| what | to reach | measured | reached | in CPU time |", "|---|---|---|---|---|"]
    for contest in contests:
        for row in contest.rows:
            result = results.get(contest.name)
            found = ratio(row, result["turns"]) if result else None
            measured = spread(found) if found else "-"
            if result and found is None:
                why = [result["failed"][name] for name in row.contestants if name in result["failed"]]
                measured = "not run: " + "; ".join(why).replace("|", "/")
            in_cpu_time = ratio(row, result["turns"], cpu=True) if result else None
            lines.append("| {} | {} {:g} | {} | {} | {} |".format(
                row.what, {"<=": "≤", ">=": "≥"}[row.compare], row.goal, measured, outcome(row, found),
                spread(in_cpu_time) if in_cpu_time else "-"))
    return "\n".join(lines)


def contestants_table(result):
    """The Markdown table of what each contestant of a contest showed: wall and CPU seconds, peak memory, ops."""
    lines = ["| contestant | seconds | CPU seconds | peak MB | tensors at once, MB | ops |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(name for turn in result["turns"] for name in turn):
        shown = [turn[name] for turn in result["turns"] if name in turn]
        ops = ["{:,}".format(one["ops"]) for one in shown if "ops" in one]
        lines.append("| {} | {} | {} | {} | {} | {} |".format(
            name, spread([s for one in shown for s in one["step_seconds"]]),
            spread([s for one in shown for s in one["step_cpu_seconds"]]),
            spread([one["peak_bytes"] / 1e6 for one in shown]),
            spread([one["live_bytes"] / 1e6 for one in shown if "live_bytes" in one]), ops[0] if ops else "-"))
    return "\n".join(lines)


def time_by_op(result, most=8):
    """Sentences on where the time of traced steps went; '' where none was traced."""
    sentences = []
    for name, shown in result["turns"][-1].items() if result["turns"] else ():
        seconds = shown.get("op_seconds")
        if seconds:
            total = sum(seconds.values())
            shares = ["{} {:.1%}".format(kind, s / total) for kind, s in list(seconds.items())[:most]]
            sentences.append("Time of `{}` by kind of op (one traced step, {} s over all threads): {}.".format(
                name, number(total), ", ".join(shares)))
    return "\n".join(sentences)


def document(contests, results, suite, machine):
    """BENCHMARKS.md.

    Args:
        contests, results: as for `table`.
        suite: the name of the suite.
        machine: a dict of facts about the machine and the versions.
    """
    parts = ["# Benchmarks", INTRODUCTION.format(suite=suite), table(contests, results), "## Machine and versions",
             "\n".join("- {}: {}".format(name, value) for name, value in machine.items())]
    for contest in contests:
        result = results.get(contest.name)
        if result is None:
            continue
        parts += ["## {}".format(contest.name), contest.about]
        if any(result["turns"]):
            parts.append(contestants_table(result))
        for name, why in result["failed"].items():
            parts.append("`{}` did not run: {}".format(name, why))
        where = time_by_op(result)
        if where:
            parts.append(where)
        parts.append("{} turn{}; just before them other processes took {} of the processors.".format(
            len(result["turns"]), "" if len(result["turns"]) == 1 else "s",
            "an unknown part" if result["busy"] is None else "{:.0%}".format(result["busy"])))
        parts.append("```bash\n" + "\n".join(result["commands"]) + "\n```")
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """Written by `python scripts/benchmark.py --suite={suite}` (`make benchmark`). Contestants run in turn, each in
a process of its own (A B A B ...). *Measured* is the median over the turns of the ratio within a turn, with the least and the
greatest in brackets. *Peak memory* is the largest resident size of the process, with TensorFlow's libraries and what its
allocator keeps for later; *tensors at once* is the most that the tensors of a step took, variables apart. Seconds differ from
machine to machine: only ratios are claims, and they are of this machine. What each contestant showed, and the exact commands,
stand below."""
