"""What all tests share: no example of Hypothesis is judged by the clock, since kernels compile on first use."""

from hypothesis import settings

settings.register_profile("onceover", deadline=None)
settings.load_profile("onceover")
