#include "base/erf.h"

#include "base/two_doubles.h"

enum { POWERS = 17 };

/* erf near a centre: first + sum over k of c[k] t^(k + 1) with t = x - centre.  The polynomials are
 * interpolated at Chebyshev's points by mpmath (chebyfit), with errors below 2^-57. */
typedef struct Piece {
  double end, centre;
  Two first;
  double c[POWERS];
} Piece;

static const Piece pieces[5] = {
    {1.25,
     0.875,
     {0x1.91724951b8fc6p-1, -0x1.271950fe71538p-55},
     {0x1.0cab61f084b93p-1, -0x1.d62beb64e8443p-2, 0x1.7c9d756a115bcp-4, 0x1.cc60567d78f4ap-4,
      -0x1.1350f4b222b5dp-4, -0x1.53bb4a5b670cdp-7, 0x1.30ac21938a541p-6, -0x1.e3f4d0f81a6e1p-10,
      -0x1.aae22e223265ep-9, 0x1.d6e4395132f56p-11, 0x1.99000f5cf35d2p-12, -0x1.94aa49be53427p-13,
      -0x1.e715db92a16e1p-16, 0x1.e6ec3e4f789e0p-16, 0x1.c77107c529c9ap-23, -0x1.af6b96dd24268p-19,
      0x1.38c0182f63565p-22}},
    {2.125,
     1.6875,
     {0x1.f74a6d9a38383p-1, 0x1.c4509bec774cdp-55},
     {0x1.0bf97e95f2a64p-4, -0x1.c435059d0978fp-4, 0x1.a3687c1eaf1a9p-4, -0x1.9647a30b1604ep-5,
      0x1.6981061e00d91p-9, 0x1.7e8755d9dda6dp-7, -0x1.9be731fe35fcfp-8, 0x1.3a95b0d0f0163p-13,
      0x1.319f7848bbfdbp-10, -0x1.b88dea2c3ba2ap-12, -0x1.037f4d749bad3p-14, 0x1.53ff50f07ffe6p-14,
      -0x1.9d4cb5150e68bp-17, -0x1.0380457013c39p-17, 0x1.b4979f133a3f7p-19, 0x1.10c5173cd2692p-22,
      -0x1.93eb993af5c12p-22}},
    {3.125,
     2.625,
     {0x1.ffe514bbdc197p-1, -0x1.e6a72c36124f7p-58},
     {0x1.2ce898809244fp-10, -0x1.8af14828bfdabp-9, 0x1.407fbd18f1197p-8, -0x1.62d4c6d4a316bp-8,
      0x1.146c4b3e2b883p-8, -0x1.267f3bc1ccb95p-9, 0x1.64f891ad3c342p-11, 0x1.229ee5d911f44p-15,
      -0x1.4006ba63ee6cep-13, 0x1.36321368713b7p-14, -0x1.5a7eeaa3699b0p-17, -0x1.c0e9043ed19fap-18,
      0x1.17057cfc9fc16p-18, -0x1.682d0f0cc5154p-21, -0x1.2d08c043a1abbp-22, 0x1.515d9c4981766p-23,
      -0x1.1663612a744d0p-26}},
    {4.375,
     3.75,
     {0x1.fffffc2f171e3p-1, 0x1.7e5fa969f120bp-55},
     {0x1.d9371e2ff823fp-21, -0x1.bba3ac4c346fbp-19, 0x1.0b6a7b0f118eep-17, -0x1.d06f586da30a1p-17,
      0x1.3436bca113013p-16, -0x1.4357b4a8be920p-16, 0x1.110de47998107p-16, -0x1.7566d09a00921p-17,
      0x1.99f5cc6af4c43p-18, -0x1.5d66f86bb7f11p-19, 0x1.a04168ee91fb0p-21, -0x1.844fc6def8d68p-24,
      -0x1.ec089e1c49a95p-25, 0x1.7398cc68490c7p-25, -0x1.ecb48325e89f2p-27, 0x1.afefe894acb64p-31,
      0x1.1758669dfeb6fp-30}},
    {6,
     5.1875,
     {0x1.ffffffffff845p-1, 0x1.ae25f9835ea66p-56},
     {0x1.46897d6d9a543p-39, -0x1.a779f93001607p-37, 0x1.67543488dbd52p-35, -0x1.c05dcd48f5b2ap-34,
      0x1.b639567685c71p-33, -0x1.5cf6efe15bcb2p-32, 0x1.d114d4a5e5cfdp-32, -0x1.08493b1723296p-31,
      0x1.0357592aeb3cdp-31, -0x1.bb4cef6f9ff07p-32, 0x1.4dfb10c88bf69p-32, -0x1.bf9c1c8c09012p-33,
      0x1.03da5404de277p-33, -0x1.fba35c043339ap-35, 0x1.dd3c6a606ed34p-36, -0x1.d3aaa682e4388p-37,
      0x1.0da028f38e857p-38}},
};

/* erf(x) / x in powers of x^2, |x| <= 1/2, made likewise */
static const Two odd_first = {0x1.20dd750429b6dp+0, 0x1.1a70f6f39063dp-56};
static const double odd[9] = {
    -0x1.812746b0379e6p-2,  0x1.ce2f21a042b29p-4,   -0x1.b82ce3127f739p-6,
    0x1.565bcd0aa6349p-8,   -0x1.c02db23d41138p-11, 0x1.f9a2a6635fe79p-14,
    -0x1.f4bb9f7301dedp-17, 0x1.b776442df3041p-20,  -0x1.39fb524e9c1f7p-23};

static double near_zero(double x) {
  const double z = x * x;
  double p = odd[8];
  for (int k = 7; k >= 0; k--) p = p * z + odd[k];
  const Two first = two_product(x, odd_first.hi);
  return first.hi + (first.lo + (x * odd_first.lo + x * z * p));
}

/* Even and odd powers are summed apart, because these sums do not wait for each other. */
static double near_centre(const Piece *s, double t) {
  const double z = t * t;
  double even = s->c[15], odd_powers = s->c[16];
  for (int k = 13; k > 0; k -= 2) {
    even = even * z + s->c[k];
    odd_powers = odd_powers * z + s->c[k + 1];
  }
  odd_powers = odd_powers * z + s->c[0];
  const Two sum = two_quick(s->first.hi, t * (odd_powers + t * even));
  return sum.hi + (sum.lo + s->first.lo);
}

double math_erf(double x) {
  const double a = fabs(x);
  if (a < 0x1p-500) return x * odd_first.hi;
  if (a < 0.5) return near_zero(x);
  if (!(a < 6)) return x != x ? (double)NAN : x < 0 ? -1 : 1;
  const Piece *s = pieces;
  while (a >= s->end) s++;
  const double y = near_centre(s, a - s->centre);
  return x < 0 ? -y : y;
}
