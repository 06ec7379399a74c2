-- Functions that take longer since the last build, that with the greatest effect first. `samples` is the table of all
-- samples, :old and :new are build IDs of the program.
WITH each AS (
    SELECT function, CASE WHEN module = program THEN '' ELSE regexp_replace(module, '.*/', '') END AS library, host,
           CASE WHEN program_build = ':new' THEN 'new' ELSE 'old' END AS version,
           calls_per_second * seconds AS calls, mean_ns, mean_ns_error
    FROM samples
    WHERE program_build IN (':old', ':new') AND mean_ns_error IS NOT NULL
), versions AS (
    SELECT version, function, library, count(DISTINCT host) AS hosts, sum(calls) AS calls,
           sum(mean_ns * calls) / sum(calls) AS mean,
           sqrt(sum(mean_ns_error * calls * mean_ns_error * calls)) / sum(calls) AS error
    FROM each GROUP BY version, function, library
)
SELECT new.function AS function, new.library AS library, new.hosts AS hosts, round(old.mean) AS old_ns, round(new.mean) AS new_ns,
       round(100 * (new.mean / old.mean - 1)) AS percent
FROM versions AS old JOIN versions AS new ON old.function = new.function AND old.library = new.library
WHERE old.version = 'old' AND new.version = 'new'
  AND new.mean - old.mean > 2 * sqrt(old.error * old.error + new.error * new.error)
  AND new.mean > 1.05 * old.mean
ORDER BY (new.mean - old.mean) * new.calls DESC
