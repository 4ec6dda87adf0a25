"""A model folder small enough to write: tokenizer, chat template and a Llama-like config, no weights.

The mocker answers with random token ids from 1000 to 1999. Each of them decodes here to ` <tag>w<id>`, so the text
of an answer names the region that wrote it, which no header of a Dynamo frontend does. With a vocabulary that ends
before 2000 those ids would decode to nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

VOCABULARY = 4096
CONTEXT_LENGTH = 8192
_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGGED = re.compile(r"\b([a-z]+\d+)w\d+\b")


def tags(text: str) -> list[str]:
    """The region tags of a generated text, in order, one a token."""
    return _TAGGED.findall(text)


def _byte_alphabet() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes, which a byte-level BPE must hold."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _vocabulary(tag: str) -> dict[str, int]:
    words = [*_SPECIALS, *_byte_alphabet()]
    words += [f"\u0120{tag}w{number}" for number in range(len(words), VOCABULARY)]  # U+0120 stands for a space
    return {word: number for number, word in enumerate(words)}


def _special(word: str) -> dict[str, Any]:
    return {
        "content": word,
        "special": True,
        **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
    }


def _tokenizer(tag: str) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    bpe: dict[str, Any] = {"type": "BPE", "vocab": _vocabulary(tag), "merges": []}
    bpe |= dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    bpe |= dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    return {
        "version": "1.0",
        **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor")),
        "added_tokens": [{"id": number, **_special(word)} for number, word in enumerate(_SPECIALS)],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": bpe,
    }


_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "model_max_length": CONTEXT_LENGTH,
    "add_bos_token": False,
    "clean_up_tokenization_spaces": False,
    "chat_template": _TEMPLATE,
    "added_tokens_decoder": {str(number): _special(word) for number, word in enumerate(_SPECIALS)},
}
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "max_position_embeddings": CONTEXT_LENGTH,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def write(folder: Path, tag: str) -> Path:
    """Write the folder of the model whose tokens carry `tag`; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "tokenizer.json": _tokenizer(tag),
        "tokenizer_config.json": _TOKENIZER_CONFIG,
        "config.json": _CONFIG,
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": [2], "temperature": 1.0},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder
