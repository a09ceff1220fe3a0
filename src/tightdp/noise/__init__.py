"""Laws of noise: on the line, on the integers, Gaussian, shaped like a ball."""
