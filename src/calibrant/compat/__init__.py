"""Functions under the names and signatures that people already use: change the import, keep the code.

``calibrant.compat.bensemble`` and ``calibrant.compat.pyhealth`` stand in for those packages' functions,
``calibrant.compat.triples`` for the functions of confidences, predictions and labels that many have copied from a page
on calibration metrics. They need none of these packages.
"""
