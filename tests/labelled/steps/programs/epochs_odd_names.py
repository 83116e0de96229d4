"""Two epochs with odd names of ranges.

What repeats: 20 training steps and 8 validation steps in each of 2 epochs.
"""

import torch
import torchvision
from truth import begin, end, tell

EPOCHS = 2
BATCH = 128
TRAIN, VALIDATE = 20, 8

model = torchvision.models.mobilenet_v2(weights=None).cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
images = torch.rand(BATCH, 3, 160, 160, device="cuda")
classes = torch.randint(0, 1000, (BATCH,), device="cuda")
nvtx = torch.cuda.nvtx

begin("training steps")
for epoch in range(EPOCHS):
    nvtx.range_push(f"<<EPOCH_{epoch}>>")
    model.train()
    for _ in range(TRAIN):
        with nvtx.range("trn|fwd+bwd+opt (v2_final)"):
            loss = torch.nn.functional.cross_entropy(model(images), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    end("training steps", EPOCHS * TRAIN, wait=epoch == EPOCHS - 1)
    model.eval()
    begin("validation steps", wait=False)
    right = torch.zeros((), device="cuda")
    with torch.no_grad():
        for _ in range(VALIDATE):
            with nvtx.range("val"):
                right += (model(images).argmax(1) == classes).sum()
    print(f"epoch {epoch}: {right.item():.0f} right")
    nvtx.range_pop()
end("validation steps", EPOCHS * VALIDATE)
tell("training steps")
