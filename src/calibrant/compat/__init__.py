"""Functions with the names and signatures that people already use: change the import, keep the code.

``calibrant.compat.bensemble`` and ``calibrant.compat.pyhealth`` replace the functions of those packages.
``calibrant.compat.triples`` replaces functions of confidences, predictions and labels that many projects have copied.
None of these packages is needed.
"""
