/* So many traced functions that two entries are less than one in twenty. The oracle calls none. */
#include "samples.h"

#define ONE(n) WHOLE int many_##n(int a); WHOLE int many_##n(int a) { return a + n; }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) \
    ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)

__attribute__((section("many_text"))) WHOLE int first_of_many(int a);
WHOLE int first_of_many(int a) { return a; }
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
TEN(10) TEN(11) TEN(12) TEN(13) TEN(14) TEN(15) TEN(16) TEN(17) TEN(18) TEN(19) TEN(20) TEN(21)
