-- Where it is slow: the hosts on which a call of a function takes longest, and what one call of 100 exceeds there.
SELECT host, round(sum(calls_per_second)) AS calls_per_second,
       round(sum(mean_ns * calls_per_second) / sum(calls_per_second)) AS mean_ns, round(max(p99_ns)) AS p99_ns
FROM samples
WHERE function = ':function' AND p99_ns IS NOT NULL
GROUP BY host ORDER BY mean_ns DESC, host LIMIT 5
