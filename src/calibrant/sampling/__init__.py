"""What a sample can tell: cells, replicates, null laws and intervals, from a table or bins and a level."""
