"""A whole agent loop over ``MemoryStore``: copy it and put a model in ``act``.

The agent obeys the first tip that it is shown; the evaluator looks at the server. In a first run one tip
misleads, and the agent notes what it should have done; once that run is credited, a second one is shown
the note first (``run_agent_example`` plays both).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from memory.store import MemoryStore

WANTED = {
    "sshd_disable_root_login": ("PermitRootLogin", "no"),
    "sshd_disable_empty_passwords": ("PermitEmptyPasswords", "no"),
    "sshd_set_max_auth_tries": ("MaxAuthTries", "4"),
    "sshd_enable_strict_modes": ("StrictModes", "yes"),
}
TOLD = WANTED | {"sshd_disable_root_login": ("PermitRootLogin", "prohibit-password")}


class Step(NamedTuple):
    """One attempt: the tip that was obeyed, its composite, and the verdict."""

    rule: str
    tip: str
    score: float
    passed: bool


def advice(option: str, value: str) -> str:
    """A tip, in words that ``act`` understands."""
    return f"Set {option} to {value} in /etc/ssh/sshd_config"


def act(tip: str, server: dict[str, str]) -> str:
    """Obey *tip*: change the server, and return the script that did it."""
    _, option, _, value, _, path = tip.split()
    server[option] = value
    return f"sed -i 's/^{option} .*/{option} {value}/' {path}\n"


def play(store: MemoryStore, name: str) -> list[Step]:
    """One run, one attempt at each rule; all that it remembers is in *store*."""
    run = store.start_run(name, model="obedient", environment_tag="toy")
    server, steps = dict[str, str](), list[Step]()
    for rule, told in TOLD.items():  # the second run finds them known
        store.save_tip(advice(*told), run=run, category="ssh", source_rule_id=rule)
    for rule, (option, value) in WANTED.items():
        got = store.retrieve(run, rule, category="ssh", k=1)
        script = act(got.tips[0].text, server)
        passed = server.get(option) == value
        key = store.save_attempt(run, rule, number=got.attempt_number, script=script, passed=passed)
        if not passed:  # it reflects
            store.save_tip(advice(option, value), run=run, category="ssh", attempt_id=key)
        steps.append(Step(rule, got.tips[0].text, got.tips[0].score, passed))
    store.end_run(run)
    return steps
