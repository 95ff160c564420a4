"""The sim backend: scenarios on a described machine. Every number is exact: simulating it again gives the same number.
Cases are repeated only to warm their caches."""
