"""Names of the Triton kernels that torch.compile writes: ``triton_poi_fused_add_relu_0``."""

from __future__ import annotations

import re

_NAME = re.compile(r"triton_(poi|red|per|tem|for|spl)_fused_([A-Za-z_]\w*?)(?:_\d+)?")
# What a name's second word says of the kernel; pointwise goes without saying.
_KINDS = {"for": "foreach ", "red": "reduce ", "per": "reduce ", "spl": "scan ", "tem": "template "}
# The names of operators follow one another with nothing between them but what is in them too. Those of more
# than one word are here; of others each word is taken for an operator.
_SEVERAL_WORDS = """
    adaptive_avg_pool2d avg_pool2d bitwise_and bitwise_not bitwise_or constant_pad_nd
    convert_element_type cross_entropy_loss embedding_dense_backward flex_attention full_like
    fused_rms_norm fused_rms_norm_backward gelu_backward index_put index_select lift_fresh
    linalg_vector_norm log_softmax log_softmax_backward_data logical_and logical_not logical_or
    masked_fill max_pool2d_with_indices native_batch_norm native_batch_norm_backward
    native_batch_norm_legit native_batch_norm_legit_functional native_dropout
    native_dropout_backward native_group_norm native_layer_norm native_layer_norm_backward new_zeros
    nll_loss_backward nll_loss_forward ones_like prepare_softmax_online scaled_dot_product_attention
    scaled_dot_product_cudnn_attention scaled_dot_product_efficient_attention
    scaled_dot_product_flash_attention sigmoid_backward silu_backward slice_backward
    softmax_backward_data tanh_backward threshold_backward to_copy unsafe_index unsafe_view var_mean
    zeros_like
"""
_LONGEST_FIRST = sorted(_SEVERAL_WORDS.split(), key=len, reverse=True)
_OPERATOR = re.compile(rf"(?:{'|'.join(_LONGEST_FIRST)})(?=_|$)|[^_]+")


def triton(name: str) -> str | None:
    """Return ``triton add+relu``, with the kind of kernel where it is none that goes point by point."""
    found = _NAME.fullmatch(name)
    if not found:
        return None
    kind, fused = found.groups()
    operators = _OPERATOR.findall(fused)
    return f"triton {'' if operators == ['sort'] else _KINDS.get(kind, '')}{'+'.join(operators)}"
