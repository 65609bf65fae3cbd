"""The few English words that the reading of tips rests on.

Guarantees: closed lists by class (function words, imperatives, generic nouns), lower case, with no
name of any program, file or setting of a system.

Does not guarantee a language: a word in none of the lists is taken for a name if its form or its
place allows it.

Shaped by "run dnf remove telnet and reboot": what ends a command is always one of these words.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS: Final = _words(
    """a about above afterwards again alone already also although always an and any are as at
    be because been before after being below between both but by can cannot could
    did do does done during each either else even every everything except failed fails failing
    first for from had has have here how however if in inside instead into is it its itself
    just kept keeps last later left less made make makes manually may might more most must
    never next no nor not nothing now of off on once only or other otherwise out over
    per please rather re same separately shall should since so still such
    than that the their them then there these they this those though through to together too
    under unless until up upon using via was were what when where whether which while who whose
    why will with within without worked works would yet you your
    changed changes didn't doesn't don't isn't wasn't brings brought broke breaks caused causes
    directly everywhere anywhere persistently permanently temporarily explicitly correctly
    successfully succeeds passed passes helped helps lost ignored"""
)
"""Words that are no name of anything; one of them ends a bare command or line."""

IMPERATIVES: Final = _words(
    """add append apply change check comment configure confirm copy create define delete disable drop
    edit enable enter ensure execute include insert install keep leave load lock make mask modify
    mount move place prefer print purge put reboot regenerate reinstall reload remove rename replace
    restart restore rotate run set start stop switch take test try unload unlock unmask update
    use verify write"""
)
"""Verbs with which a step of advice begins."""

GENERIC_NOUNS: Final = _words(
    """access account accounts argument arguments attribute attributes block character characters
    command commands configuration content contents daemon day days default directive
    directory entries entry file files flag flags folder group groups hour hours key keys keyword
    kernel level line lines member method minute minutes mode module modules option options
    owner ownership package packages parameter parameters password passwords path permission
    permissions policy port ports program rule rules script scripts second seconds section
    service services setting settings size socket sockets statement switch system tool type unit
    units user users value values variable version watch watches"""
)
"""Nouns that say what sort of thing is meant, never which one."""

ADJECTIVES: Final = _words(
    """active automatic blank broken commented correct duplicate empty existing extra final
    following given good invalid manual missing new old operating original own previous primary main
    proper red relevant required resulting right second separate single software specific usual valid
    whole wrong"""
)
"""Words between an article and a noun that name nothing."""

NO_NAMES: Final = (
    FUNCTION_WORDS | GENERIC_NOUNS | ADJECTIVES
    | _words(
        """and/or auditing bits line logging login logon occurrences root support using"""
    )
)  # fmt: skip
