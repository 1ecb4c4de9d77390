/* locale.h - numbers are read and written with a decimal point, whatever locale a host has set.
 *
 * What is switched is the calling thread's locale alone; the process's is not touched.
 */
#ifndef GRPO_OS_LOCALE_H
#define GRPO_OS_LOCALE_H

typedef void *LocaleMark;

LocaleMark locale_enter(void);           /* the C locale from now on; returns what was in use */
LocaleMark locale_switch(LocaleMark to); /* the same with any that a call returned; NULL: nothing */

#endif
