"""The GPUs of this machine, asked for once: each question is a process."""

from nsyswrap.record import gpus

DEVICES = gpus.query()
NO_GPU = DEVICES.error
