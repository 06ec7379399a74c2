create table t(a integer primary key, b text, c real);
begin; 
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i, 'row ' || i, i*1.5 from n;
commit;
create index tb on t(b);
update t set c=c+1 where a%7=0;
delete from t where a%11=0;
vacuum;
select count(*), sum(c) from t;
