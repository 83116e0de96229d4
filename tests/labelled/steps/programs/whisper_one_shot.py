"""Encode some minutes of sound once, and reduce the result. What repeats: nothing."""

import torch
from transformers import WhisperConfig, WhisperModel
from truth import tell

CLIPS = 16

config = WhisperConfig(vocab_size=1000, d_model=512, encoder_layers=6, decoder_layers=1)
config.encoder_attention_heads = config.decoder_attention_heads = 8
config.encoder_ffn_dim = config.decoder_ffn_dim = 2048
config.pad_token_id = config.bos_token_id = config.eos_token_id = config.decoder_start_token_id = 0
model = WhisperModel(config).cuda().eval()

sound = torch.randn(CLIPS, 160 * 3000).cuda()
window = torch.hann_window(400, device="cuda")
spectrum = torch.stft(sound, 400, 160, window=window, return_complex=True).abs()[..., :3000]
features = (spectrum[:, : config.num_mel_bins] + 1e-6).log10()
with torch.no_grad():
    encoded = model.get_encoder()(features).last_hidden_state
flat = encoded.flatten(0, 1)
covariance = (flat - flat.mean(0)).T @ flat / len(flat)
covariance.diagonal().add_(1e-3)
factor = torch.linalg.cholesky(covariance)
white = torch.linalg.solve_triangular(factor, (flat - flat.mean(0)).T, upper=False).T
distances = torch.cdist(white[:8192], white[:8192])
print(white.std().item(), distances.topk(5, largest=False).values.mean().item())
tell(None)
