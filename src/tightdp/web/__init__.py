"""The page: a plan in a browser, on this machine; the error is seen first, then paid for."""
