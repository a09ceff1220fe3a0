"""Private estimators with the scikit-learn contract."""
