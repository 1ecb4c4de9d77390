/* locale.h - switches the calling thread to the C locale, so that numbers are read and written
 * with a decimal point whatever locale a host has set.  The locale of the process is not touched.
 */
#ifndef GRPO_OS_LOCALE_H
#define GRPO_OS_LOCALE_H

typedef void *LocaleMark;

LocaleMark locale_enter(void);           /* to the C locale; returns the one before */
LocaleMark locale_switch(LocaleMark to); /* to one that a call returned; NULL does nothing */

#endif
