"""Many tables at once: residual coordinates, what a row costs in them, and the plan of the noise.

Mathematics from public facts alone: no data, no draws.
"""
