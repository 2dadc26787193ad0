"""What happened: trajectory records, their token codec, the SQL store and its integrity check."""
