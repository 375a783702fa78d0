#include "ctl/load.h"
void daemon_set_step(struct load *l, struct str key, const struct client_object *o){(void)o;work_done(l->work,key);}
void stateful_set_step(struct load *l, struct str key, const struct client_object *o){(void)o;work_done(l->work,key);}
void job_step(struct load *l, struct str key, const struct client_object *o){(void)o;work_done(l->work,key);}
