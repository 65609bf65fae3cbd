"""A whole agent loop over ``MemoryStore``: copy it and put a model in ``act``.

The agent obeys the first tip that it is shown, if any; the evaluator looks at the server. In a first run
one tip misleads, and at its end the agent notes what it should have done; once that is credited, a second
is shown the note first (``run_agent_example``). A run left half way is gone on with where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory.store import RunExists

if TYPE_CHECKING:
    from memory.store import MemoryStore

WANTED = {
    "sshd_disable_root_login": ("PermitRootLogin", "no"),
    "sshd_disable_empty_passwords": ("PermitEmptyPasswords", "no"),
    "sshd_set_max_auth_tries": ("MaxAuthTries", "4"),
    "sshd_enable_strict_modes": ("StrictModes", "yes"),
}
TOLD = WANTED | {"sshd_disable_root_login": ("PermitRootLogin", "prohibit-password")}


def advice(option: str, value: str) -> str:
    """A tip, in words that ``act`` understands."""
    return f"Set {option} to {value} in /etc/ssh/sshd_config"


def act(tip: str, server: dict[str, str]) -> str:
    """Obey *tip*: change the server, and return the script that did it."""
    _, option, _, value, _, path = tip.split()
    server[option] = value
    return f"sed -i 's/^{option} .*/{option} {value}/' {path}\n"


def play(store: MemoryStore, name: str) -> None:
    """One run, an attempt at each rule; all that it remembers is in *store*. RunClosed: it has ended."""
    try:
        run = store.start_run(name, model="obedient", environment_tag="toy")
    except RunExists:
        run = store.open_run(name)
    server = dict[str, str]()
    for rule, told in TOLD.items():  # the second run finds them known
        store.save_tip(advice(*told), run=run, category="ssh", source_rule_id=rule)
    begun = {one.rule_id: one for one in store.attempts(run)}  # some if it was left half way
    for rule, (option, value) in WANTED.items():
        if (known := begun.get(rule)) and known.saved:
            continue
        number = known.number if known else None
        got = store.retrieve(run, rule, category="ssh", k=1, attempt=number)
        script = act(got.tips[0].text, server) if got.tips else None  # None: the tip was withheld
        passed = server.get(option) == value
        store.save_attempt(run, rule, number=got.attempt_number, script=script, passed=passed)
    for one in store.attempts(run):  # it reflects; a tip that is known is not stored twice
        if not one.passed:
            tip = advice(*WANTED[one.rule_id])
            store.save_tip(tip, run=run, category="ssh", attempt_id=one.attempt_id)
    store.end_run(run)
