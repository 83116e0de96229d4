"""Filter detections with torchvision, whose boolean masks and NMS wait for the GPU.

Lost time: each mask and NMS copies its number of results to the host, before the next can be launched.
"""

import torch
import torchvision.ops
from common import report, start

STEPS, IMAGES = 20, 16
size = (800, 1200)
corners = torch.rand(IMAGES, 4000, 2, device="cuda") * 700
boxes = torch.cat((corners, corners + torch.rand_like(corners) * 90), dim=2)
logits = torch.randn(IMAGES, 4000, device="cuda")


def detect(boxes: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    scores = logits.sigmoid()
    chosen = scores > 0.6
    boxes, scores = boxes[chosen], scores[chosen]
    boxes = torchvision.ops.clip_boxes_to_image(boxes, size)
    keep = torchvision.ops.remove_small_boxes(boxes, 4.0)
    boxes, scores = boxes[keep], scores[keep]
    keep = torchvision.ops.nms(boxes, scores, 0.5)
    inside = torch.nonzero(boxes[keep, 0] < 600).squeeze(1)
    return boxes[keep[inside]]


for image in range(2):
    detect(boxes[image], logits[image])
started = start()
for _ in range(STEPS):
    found = [detect(boxes[image], logits[image]) for image in range(IMAGES)]
report("hidden synchronizations: boolean masks, nonzero and NMS", STEPS, started)
