"""Transcribe clips with a small Whisper.

What repeats: 5 clips, `clip-01.wav` and so on, of 24 tokens each.
"""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput
from truth import begin, end, tell

CLIPS = 5
TOKENS = 24
BATCH = 8

config = WhisperConfig(vocab_size=4096, d_model=512, encoder_layers=4, decoder_layers=2)
config.encoder_attention_heads = config.decoder_attention_heads = 8
config.encoder_ffn_dim = config.decoder_ffn_dim = 2048
config.pad_token_id = config.bos_token_id = config.eos_token_id = config.decoder_start_token_id = 1
model = WhisperForConditionalGeneration(config).cuda().eval()
features = torch.randn(CLIPS, BATCH, config.num_mel_bins, 3000)

begin("clips")
begin("tokens", wait=False)
with torch.inference_mode():
    for clip in range(1, CLIPS + 1):
        torch.cuda.nvtx.range_push(f"clip-{clip:02d}.wav")
        encoded: BaseModelOutput = model.get_encoder()(features[clip - 1].cuda())
        tokens = torch.ones(BATCH, 1, dtype=torch.long, device="cuda")
        cache = None
        for _ in range(TOKENS):
            out = model(
                encoder_outputs=encoded,
                decoder_input_ids=tokens[:, -1:],
                past_key_values=cache,
                use_cache=True,
            )
            cache = out.past_key_values
            tokens = torch.cat([tokens, out.logits[:, -1].argmax(-1, keepdim=True)], 1)
        print(clip, tokens[0, -1].item())
        torch.cuda.nvtx.range_pop()
end("tokens", CLIPS * TOKENS)
end("clips", CLIPS)
tell("clips")
