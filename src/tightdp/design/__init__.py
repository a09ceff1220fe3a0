"""Noise by optimisation: found by a solver, proved by a verifier that has none."""
