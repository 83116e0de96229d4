"""What is known about releases of nsys."""

from __future__ import annotations

# Major version of CUDA -> the nsys release that came with its first release.
FIRST_NSYS = {12: (2022, 4), 13: (2025, 3)}
