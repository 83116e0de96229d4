"""What is said of programs with a busy GPU: the cause first, and nothing of healthy ones."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from labels import HERE, read_entries

from nsyswrap.analysis.answer import answer_of
from nsyswrap.api import open_capture

FOLDERS = (HERE / "gpu_busy", HERE / "gpu_busy" / "held_out")
LABELS = read_entries(FOLDERS[0]) | read_entries(FOLDERS[1])
FIRST = {
    "accelerate_own_optimizer": "parameter_updates",
    "attention_einsum": "unfused_attention",
    "attention_masked": "unfused_attention",
    "axial_copies": "layout_copies",
    "casts_of_weights": "casts",
    "clones_each_layer": "layout_copies",
    "dropout_residual_norm": "elementwise_chains",
    "features_float64": "fp64_kernels",
    "features_streamed": "copy_bound",
    "gpt2_float32": "fp32_products",
    "gpt2_vocabulary": "misaligned_products",
    "jax_chain": "elementwise_chains",
    "layer_norm_written_out": "elementwise_chains",
    "lightning_float32": "fp32_products",
    "odd_width": "misaligned_products",
    "particle_push": "elementwise_chains",
    "second_wave": "last_wave",
    "stencil_copies": "layout_copies",
    "segmentation_float32": "fp32_products",
    "t5_position_bias": "unfused_attention",
    "triton_few_blocks": "few_blocks",
    "vit_accelerate_float32": "fp32_products",
    "whisper_eager": "unfused_attention",
}
ALONE = {
    "bodies_float64",
    "naive_product",
    "scatter_duplicates",
    "softmax_strided",
    "triton_small_tiles",
}  # in one kernel
# Events of jax_float64 were lost, and llama_dynamic_cache loads kernels in each step.
OTHERS = {"jax_float64", "llama_dynamic_cache"}
TRUE = {  # which are there, in a tenth of a step
    "healthy_dinov2_inference": "elementwise_chains",
    "healthy_vgg_channels_last": "elementwise_chains",
}
PACKED = {
    path.name.removesuffix(".sqlite.xz"): path
    for folder in FOLDERS
    for path in sorted((folder / "captures").glob("*.xz"))
}


@pytest.mark.parametrize("recording", [one for one in PACKED if one not in OTHERS])
def test_the_cause_is_first_and_healthy_programs_have_none(recording: str, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(lzma.decompress(PACKED[recording].read_bytes()))
    answer = answer_of(open_capture(path))
    kinds = [finding.kind for finding in answer.findings]
    if recording in FIRST:
        assert kinds[0] == FIRST[recording]
    elif recording in ALONE:
        assert not kinds
        assert "one_kernel" in {fact.kind for fact in answer.facts}
    else:
        assert LABELS[recording]["healthy"]
        assert set(kinds) <= {TRUE.get(recording)}


def test_every_recorded_cause_is_looked_for() -> None:
    causes = {recording for recording in PACKED if not LABELS[recording]["healthy"]}
    assert causes == {*FIRST, *ALONE, *OTHERS}
