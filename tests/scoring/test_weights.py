"""The files of the model: only the published ones are let in.

Holds `scoring.weights` to refusing any other bytes before a library sees them, and to errors
that name the file, both hashes and the mend.

Shaped by: weights from a packager nobody knows.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from scoring import weights
from scoring.embedding import load_encoder
from scoring.weights import (
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    WEIGHTS_SHA256,
    ModelMissing,
    WeightsMismatch,
    model_available,
    model_directory,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_installed_model_is_available() -> None:
    usable, line = model_available()
    assert usable, line
    assert WEIGHTS_SHA256[:12] in line


def test_exchanged_weights_are_refused_before_they_are_loaded(tmp_path: Path) -> None:
    shutil.copy(model_directory() / TOKENIZER_FILE, tmp_path)
    fake = b"not the published weights"
    (tmp_path / WEIGHTS_FILE).write_bytes(fake)
    with pytest.raises(WeightsMismatch, match=re.escape(str(tmp_path / WEIGHTS_FILE))) as caught:
        load_encoder(directory=tmp_path)
    assert caught.value.expected == WEIGHTS_SHA256
    assert caught.value.found == hashlib.sha256(fake).hexdigest()
    usable, why = model_available(tmp_path)
    assert not usable
    assert hashlib.sha256(fake).hexdigest() in why


def test_an_exchanged_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / WEIGHTS_FILE).symlink_to(model_directory() / WEIGHTS_FILE)
    content = (model_directory() / TOKENIZER_FILE).read_text(encoding="utf-8")
    (tmp_path / TOKENIZER_FILE).write_text(content + " ", encoding="utf-8")
    with pytest.raises(WeightsMismatch, match=TOKENIZER_FILE):
        load_encoder(directory=tmp_path)


def test_an_absent_model_is_named_with_its_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelMissing, match=r"No such file.*install"):
        load_encoder(directory=tmp_path)
    monkeypatch.setattr(weights, "MODEL_PACKAGE", "no_such_package_of_weights")
    with pytest.raises(ModelMissing, match="no_such_package_of_weights"):
        model_directory()
    assert model_available() == (False, str(ModelMissing("the package no_such_package_of_weights")))


def test_a_missing_library_is_named_without_importing_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_RUNTIME_PACKAGES", ("torch", "no_such_library.torch"))
    usable, why = model_available()
    assert not usable
    assert "no_such_library" in why
    with pytest.raises(ModelMissing, match=r"no_such_library.*install"):
        weights.load_model(model_directory())
