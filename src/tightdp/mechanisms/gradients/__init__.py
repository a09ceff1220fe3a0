"""The K-norm gradient mechanism: means, medians, quantiles and regressions."""
