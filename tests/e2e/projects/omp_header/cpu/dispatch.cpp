#include "avx2.hpp"
#include "count.hpp"

void count(int64_t* team_size, int64_t* largest, bool* with_openmp) {
  *team_size = team();
  *largest = largest_team();
#ifdef _OPENMP
  *with_openmp = true;
#else
  *with_openmp = false;
#endif
}
