SELECT call.name AS in_the_kernel, count(*) AS calls, sum(call.dur) / 1000 AS us
FROM slice call JOIN ancestor_slice(call.id) function
WHERE function.name = 'save' AND call.name LIKE '%:%'
GROUP BY 1 ORDER BY us DESC LIMIT 8;
