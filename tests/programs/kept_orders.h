// What kept_orders.c and kept_orders.cpp know of a library.
double norm(int);

#ifdef __cplusplus
struct Vector {
  double norm();
};
#endif
