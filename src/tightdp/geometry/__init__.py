"""Norm balls, sensitivity spaces and hulls: the mathematics of shapes, without data or noise."""
