"""When two tips are one advice: by the letter first, by the vector only where the letter allows it."""

from __future__ import annotations

import pytest

from memory.duplicates import Advice, same_advice
from tests.memory.ranking_rows import unit

NEAR = (unit(1.0), unit(1.0, 0.1))


def alike(one: str, other: str) -> bool:
    """With vectors that are as near as those of one sentence in two wordings."""
    advice = (Advice(one, NEAR[0], "e"), Advice(other, NEAR[1], "e"))
    found, _ = same_advice(*advice, threshold=0.97)
    assert found == same_advice(*reversed(advice), threshold=0.97)[0]
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use update-crypto-policies", "Prefer update-crypto-policies for this"),
        ("Write it to /etc/ssh/sshd_config", "/etc/ssh/sshd_config is where to write it."),
        ("Do not edit the file by hand", "By hand you should not edit the file"),
        ("Set mode 0600", "The mode is to be 0600"),
    ],
)
def test_other_words_are_the_same_advice(one: str, other: str) -> None:
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Edit the file by hand", "Never edit the file by hand"),
        ("Set mode 0600", "Set mode 0640"),
        ("Write it to /etc/ssh/sshd_config", "Write it to /etc/ssh/ssh_config"),
        ("Append it with --force", "Append it with --dry-run"),
        ("Enable the service", "Don't enable the service"),
        ("Set net.ipv4.ip_forward=0", "Set net.ipv4.ip_forward=1"),
        ("Restart instead of reloading", "Reload instead of restarting the unit, do not restart"),
    ],
)
def test_the_opposite_or_another_value_is_not(one: str, other: str) -> None:
    assert not alike(one, other)


def test_without_vectors_only_equal_texts_are() -> None:
    assert same_advice(Advice("Use  FIPS."), Advice("use fips"), threshold=0.97) == (True, None)
    assert not same_advice(Advice("Use FIPS"), Advice("Take FIPS"), threshold=0.97)[0]
    other = Advice("Take FIPS", NEAR[1], "another encoder")
    assert not same_advice(Advice("Use FIPS", NEAR[0], "e"), other, threshold=0.1)[0]


def test_a_threshold_of_one_is_off() -> None:
    assert not same_advice(Advice("a"), Advice("a"), threshold=1.0)[0]
