"""Tables on any engine and the statistics that are summed over them."""
